"""Plans the formats of CREATE SOURCE … FROM KAFKA: their columns, and the formats that queries inherit."""

from __future__ import annotations

import re

import msgspec

from kestrel_sql.errors import FormatError, RegistryError
from kestrel_sql.formats.properties import FULL_NAME
from kestrel_sql.formats.registered.columns import columns_of
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import RegisteredSchema, SchemaRegistry
from kestrel_sql.formats.serde import Side
from kestrel_sql.formats.source_messages import SCHEMA
from kestrel_sql.plan.step import FormatInfo, SerdeFeature
from kestrel_sql.planner.ddl.inference import with_role
from kestrel_sql.sql.nodes.kafka_source import MessageFormat
from kestrel_sql.types.schema import Column, Role
from kestrel_sql.types.sql_types import BYTES, STRING, SqlType, Struct

_NAMES = {"JSON": "JSON_DOCUMENT"}
"""The names of formats in plans, if ksqlDB has another format of that name."""
_WHOLE: dict[str, tuple[str, SqlType]] = {"TEXT": ("TEXT", STRING), "BYTES": ("DATA", BYTES), "JSON": ("DATA", STRING)}


class MessageSerde(msgspec.Struct, frozen=True, kw_only=True):
    """The key or value of a message: its format, its columns, and the format that queries over the source inherit."""

    format: FormatInfo
    columns: tuple[Column, ...]
    inherited: str
    features: frozenset[SerdeFeature] = frozenset()


NO_KEY = MessageSerde(format=FormatInfo("NONE"), columns=(), inherited="NONE")
"""The key of a source without key columns."""


def has_schema(form: MessageFormat) -> bool:
    """Whether the columns of a format come from a schema."""
    return form.name in LANGUAGES


def message_serde(form: MessageFormat, side: Side, topic: str, registry: SchemaRegistry) -> MessageSerde:
    """Return the format and the columns of the key or value of a message.

    Raises:
        FormatError: an option of the format is missing or invalid, or its schema cannot be read.
        RegistryError: the registry does not have the schema, or has it in another format.
    """
    if has_schema(form):
        return _schema_side(form, side, topic, registry)
    role = _role(side)
    if form.name in _WHOLE:
        name, sql_type = _WHOLE[form.name]
        columns: tuple[Column, ...] = (Column("KEY" if side is Side.KEY else name, sql_type, role),)
    else:
        columns = tuple(
            Column(name, STRING, role) for name in (_csv_names(form) if form.name == "CSV" else _regex_names(form))
        )
    inherited = "JSON" if side is Side.VALUE or len(columns) > 1 else "KAFKA"
    return MessageSerde(
        format=FormatInfo(_NAMES.get(form.name, form.name), _properties(form)), columns=columns, inherited=inherited
    )


def _role(side: Side) -> Role:
    return Role.KEY if side is Side.KEY else Role.VALUE


def _properties(form: MessageFormat) -> tuple[tuple[str, str], ...]:
    all_properties = (
        ("delimiter", form.delimiter),
        ("pattern", form.pattern),
        (SCHEMA, form.schema),
        (FULL_NAME, form.message),
    )
    return tuple(sorted((name, value) for name, value in all_properties if value is not None))


def _csv_names(form: MessageFormat) -> tuple[str, ...]:
    delimiter = form.delimiter
    if delimiter is not None and not (len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'):
        raise FormatError(
            f"the delimiter of CSV must be one ASCII character, not '{delimiter}'",
            span=form.span,
            hint="such as DELIMITED BY ';'",
        )
    if form.names:
        return form.names
    if not form.columns or form.columns < 0:
        raise FormatError("CSV needs at least one column", span=form.span, hint="such as CSV WITH 3 COLUMNS")
    return tuple(f"COLUMN{number}" for number in range(1, form.columns + 1))


def _regex_names(form: MessageFormat) -> tuple[str, ...]:
    try:
        pattern = re.compile(form.pattern or "")
    except re.error as error:
        raise FormatError(f"REGEX '{form.pattern}' is not a regular expression: {error}", span=form.span) from None
    if not pattern.groups:
        raise FormatError(
            f"REGEX '{form.pattern}' needs at least one group, for each group becomes a column",
            span=form.span,
            hint="such as (?P<name>…)",
        )
    named = {number: name for name, number in pattern.groupindex.items()}
    return tuple(named.get(number, f"COLUMN{number}").upper() for number in range(1, pattern.groups + 1))


def _schema_side(form: MessageFormat, side: Side, topic: str, registry: SchemaRegistry) -> MessageSerde:
    if form.name == "AVRO" and form.message is not None:
        raise FormatError("MESSAGE belongs to PROTOBUF, not to AVRO", span=form.span)
    columns = _in_statement(form, side) if form.schema is not None else _in_registry(form, side, topic, registry)
    role = _role(side)
    # An AVRO schema comes as one column, a PROTOBUF schema as its fields.
    (first, *_) = columns
    features: frozenset[SerdeFeature] = frozenset()
    if form.name == "AVRO" and isinstance(first.type, Struct):
        columns = tuple(Column(field.name, field.type, role) for field in first.type.fields)
    elif form.name == "AVRO":
        columns = (Column("KEY" if side is Side.KEY else "DATA", first.type, role),)
        features = frozenset({SerdeFeature.UNWRAP_SINGLES})
    return MessageSerde(
        format=FormatInfo(form.name, _properties(form)), columns=columns, inherited=form.name, features=features
    )


def _in_statement(form: MessageFormat, side: Side) -> tuple[Column, ...]:
    schema = RegisteredSchema(0, LANGUAGES[form.name].format, form.schema or "")
    columns = columns_of(schema, side, full_name=form.message, unwrapped=True, unwrap_primitives=False)
    if not columns:
        raise FormatError(f"the schema has no message '{form.message}'", span=form.span)
    return with_role(columns, side)


def _in_registry(form: MessageFormat, side: Side, topic: str, registry: SchemaRegistry) -> tuple[Column, ...]:
    subject = f"{topic}-{side.value}"
    schema = registry.latest(subject)
    if schema is None:
        raise RegistryError(
            f"the schema registry has no subject {subject}",
            span=form.span,
            hint=f"register a schema for the {side.value}, or write it in the statement: {form.name} USING SCHEMA '…'",
        )
    if schema.format is not LANGUAGES[form.name].format:
        raise RegistryError(f"the schema of {subject} is {schema.format.value}, not {form.name}", span=form.span)
    columns = columns_of(
        schema, side, full_name=form.message, unwrapped=True, unwrap_primitives=False, view=registry.snapshot()
    )
    if not columns:
        raise RegistryError(f"the schema of {subject} has no message '{form.message}'", span=form.span)
    return with_role(columns, side)
