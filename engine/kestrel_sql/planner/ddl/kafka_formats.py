"""The formats of CREATE SOURCE … FROM KAFKA: the columns each gives, and the formats that queries over the source inherit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kestrel_sql.errors import FormatError, RegistryError
from kestrel_sql.formats.capabilities import FULL_NAME
from kestrel_sql.formats.registered.columns import columns_of
from kestrel_sql.formats.registry.memory import RegisteredSchema, SchemaFormat
from kestrel_sql.formats.serde import Side
from kestrel_sql.formats.source_messages import SCHEMA
from kestrel_sql.plan.step import FormatInfo, SerdeFeature
from kestrel_sql.planner.ddl.registry_port import ColumnOptions, SchemaLookup
from kestrel_sql.sql.nodes.kafka_source import MessageFormat
from kestrel_sql.types.schema import Column, Role
from kestrel_sql.types.sql_types import BYTES, STRING, SqlType, Struct

_LANGUAGES = {"AVRO": SchemaFormat.AVRO, "PROTOBUF": SchemaFormat.PROTOBUF}
_NAMES = {"JSON": "JSON_DOCUMENT"}
"""What a format is called in plans, where ksqlDB's formats have their names already."""
_WHOLE: dict[str, tuple[str, SqlType]] = {"TEXT": ("TEXT", STRING), "BYTES": ("DATA", BYTES), "JSON": ("DATA", STRING)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSide:
    """Key or value of a message: how it is written, the columns it gives, and the format that others inherit."""

    format: FormatInfo
    columns: tuple[Column, ...]
    inherited: str
    features: frozenset[SerdeFeature] = frozenset()


NOTHING = MessageSide(format=FormatInfo("NONE"), columns=(), inherited="NONE")
"""The key of a source that has none."""


def has_schema(form: MessageFormat) -> bool:
    """Whether a format takes its columns from a schema."""
    return form.name in _LANGUAGES


def message_side(form: MessageFormat, side: Side, topic: str, registry: SchemaLookup) -> MessageSide:
    """Find the columns that a format gives key or value of a message.

    Raises:
        FormatError: a format that is not whole, or a schema that cannot be read.
        RegistryError: a schema that the registry does not have, or of another language.
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
    return MessageSide(
        format=FormatInfo(_NAMES.get(form.name, form.name), _properties(form)), columns=columns, inherited=inherited
    )


def _role(side: Side) -> Role:
    return Role.KEY if side is Side.KEY else Role.VALUE


def _properties(form: MessageFormat) -> tuple[tuple[str, str], ...]:
    given = (("delimiter", form.delimiter), ("pattern", form.pattern), (SCHEMA, form.schema), (FULL_NAME, form.message))
    return tuple(sorted((name, value) for name, value in given if value is not None))


def _csv_names(form: MessageFormat) -> tuple[str, ...]:
    delimiter = form.delimiter
    if delimiter is not None and not (len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'):
        raise FormatError(
            f"the delimiter of a CSV is one ASCII character, not '{delimiter}'", span=form.span, hint="DELIMITED BY ';'"
        )
    if form.names:
        return form.names
    if not form.columns or form.columns < 0:
        raise FormatError("a CSV has at least one column", span=form.span, hint="CSV WITH 3 COLUMNS")
    return tuple(f"COLUMN{number}" for number in range(1, form.columns + 1))


def _regex_names(form: MessageFormat) -> tuple[str, ...]:
    try:
        pattern = re.compile(form.pattern or "")
    except re.error as error:
        raise FormatError(f"REGEX '{form.pattern}' is no regular expression: {error}", span=form.span) from None
    if not pattern.groups:
        raise FormatError(
            f"REGEX '{form.pattern}' has no group, so that it gives no column",
            span=form.span,
            hint="(?P<name>…) gives one",
        )
    named = {number: name for name, number in pattern.groupindex.items()}
    return tuple(named.get(number, f"COLUMN{number}").upper() for number in range(1, pattern.groups + 1))


def _schema_side(form: MessageFormat, side: Side, topic: str, registry: SchemaLookup) -> MessageSide:
    if form.name == "AVRO" and form.message is not None:
        raise FormatError("AVRO has no MESSAGE, PROTOBUF has", span=form.span)
    found = _in_statement(form, side) if form.schema is not None else _in_registry(form, side, topic, registry)
    role = _role(side)
    # AVRO is asked for as one column; PROTOBUF gives its fields at once.
    (first, *_) = found
    features: frozenset[SerdeFeature] = frozenset()
    if form.name == "AVRO" and isinstance(first.type, Struct):
        found = tuple(Column(field.name, field.type, role) for field in first.type.fields)
    elif form.name == "AVRO":
        found = (Column("KEY" if side is Side.KEY else "DATA", first.type, role),)
        features = frozenset({SerdeFeature.UNWRAP_SINGLES})
    return MessageSide(
        format=FormatInfo(form.name, _properties(form)), columns=found, inherited=form.name, features=features
    )


def _in_statement(form: MessageFormat, side: Side) -> tuple[Column, ...]:
    schema = RegisteredSchema(0, _LANGUAGES[form.name], form.schema or "")
    columns = columns_of(schema, side, full_name=form.message, unwrapped=True)
    if not columns:
        raise FormatError(f"the schema has no message '{form.message}'", span=form.span)
    return tuple(Column(column.name, column.type, _role(side)) for column in columns)


def _in_registry(form: MessageFormat, side: Side, topic: str, registry: SchemaLookup) -> tuple[Column, ...]:
    subject = f"{topic}-{side.value}"
    schema = registry.latest(subject)
    if schema is None:
        raise RegistryError(
            f"the schema registry has no subject {subject}",
            span=form.span,
            hint=f"register the schema of the {side.value}, or give it in the statement: {form.name} USING SCHEMA '…'",
        )
    if schema.format is not _LANGUAGES[form.name]:
        raise RegistryError(f"the schema of {subject} is {schema.format.value}, not {form.name}", span=form.span)
    columns = registry.columns(
        schema, ColumnOptions(side=side, format=form.name, unwrapped=True, full_name=form.message)
    )
    if not columns:
        raise RegistryError(f"the schema of {subject} has no message '{form.message}'", span=form.span)
    return columns
