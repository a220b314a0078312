"""Infers columns from the schema registry, and lists the schemas that a statement registers (rules F8)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import RegistryError, StatementError
from kestrel_sql.formats.format import column_list
from kestrel_sql.formats.properties import FULL_NAME, SCHEMA_ID
from kestrel_sql.formats.registered.columns import columns_of, full_name_of
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import RegisteredSchema, SchemaRegistry
from kestrel_sql.formats.serde import Side
from kestrel_sql.formats.table import format_of
from kestrel_sql.plan.step import FormatInfo, Formats, SerdeFeature
from kestrel_sql.planner.properties.serdes import check_schema_id
from kestrel_sql.planner.properties.with_clause import SerdeProperties, SinkProperties, SourceProperties
from kestrel_sql.types.schema import Column, Role, Schema

_FORMATS = {language.format: name for name, language in LANGUAGES.items()}


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A schema that a statement registers.

    Without `schema_id` the schema is generated from `columns`; else the schema with that id is registered and must get
    the same id. With `only_if_absent` nothing is registered if the subject has a schema.
    """

    subject: str
    side: Side
    format: FormatInfo
    columns: tuple[Column, ...]
    features: frozenset[SerdeFeature]
    schema_id: int | None = None
    only_if_absent: bool = False


class Inferred(msgspec.Struct, frozen=True, kw_only=True):
    """Columns from the registry; None for a key or value that the statement defines, or that has no schema.

    `properties` are the statement's, with the full names of the schemas that it gives by id.
    """

    key: tuple[Column, ...] | None
    value: tuple[Column, ...] | None
    properties: SourceProperties


def infer_source(
    properties: SourceProperties,
    infos: tuple[FormatInfo, FormatInfo],
    registry: SchemaRegistry,
    *,
    has_key: bool,
    has_value: bool,
) -> Inferred:
    """Look up the key and value columns that the statement does not define; `infos` are its key and value format.

    Raises:
        RegistryError: a schema is missing, has another format, or cannot become columns.
        StatementError: the statement has both a schema id and columns for the key or the value.
    """
    topic = properties.topic.name or ""
    key_info, value_info = infos
    key = _SchemaRequest(Side.KEY, topic, key_info, properties.key, _unwraps_key(key_info))
    value = _SchemaRequest(Side.VALUE, topic, value_info, properties.value, properties.wrap_single_value is False)
    for request, defined in ((key, has_key), (value, has_value)):
        if defined and request.properties.schema_id is not None:
            raise StatementError(
                f"Table elements and {request.prefix}_SCHEMA_ID cannot both exist for create statement."
            )
    return Inferred(
        key=None if has_key else _infer(key, registry),
        value=None if has_value else _infer(value, registry),
        properties=replace(
            properties,
            key=_with_full_name(key, registry),
            value=_with_full_name(value, registry),
        ),
    )


def name_sink_schemas(properties: SinkProperties, leftmost: Source, registry: SchemaRegistry) -> SinkProperties:
    """Add the full names of the schemas that a CREATE AS gives by id.

    Raises:
        RegistryError: the registry does not have the id, or the schema has another format.
        FormatError: the format of a schema id has no schemas.
    """
    requests = _sink_requests(properties, leftmost)
    for request in requests:
        check_schema_id(request.prefix, request.format.format, request.properties)
    key, value = requests
    return replace(properties, key=_with_full_name(key, registry), value=_with_full_name(value, registry))


def check_sink_schemas(properties: SinkProperties, leftmost: Source, schema: Schema, registry: SchemaRegistry) -> None:
    """Check the result of a CREATE AS against the schemas that it gives by id, which may have more columns.

    Raises:
        RegistryError: a schema is missing or has another format.
        StatementError: the schema does not have a column, or has it at another position or with another type.
    """
    key, value = _sink_requests(properties, leftmost)
    for request, columns in ((key, schema.key), (value, schema.value)):
        if request.properties.schema_id is None:
            continue
        wanted = _infer(request, registry) or ()
        changed = [
            c for i, c in enumerate(columns) if i >= len(wanted) or (wanted[i].name, wanted[i].type) != (c.name, c.type)
        ]
        if changed:
            raise StatementError(
                f"The following {request.side.value} columns are changed, missing or reordered: "
                f"{column_list(changed)}. Schema from schema registry is {column_list(wanted)}"
            )


def registrations(topic: str, formats: Formats, schema: Schema, *, sink: bool) -> tuple[Registration, ...]:
    """List the schemas that a CREATE or, with `sink`, a CREATE AS registers for a topic."""
    sides = (
        (Side.KEY, formats.key_format, schema.key, formats.key_features),
        (Side.VALUE, formats.value_format, schema.value, formats.value_features),
    )
    return tuple(
        _registration(topic, kind, info, columns, features, sink)
        for kind, info, columns, features in sides
        if (columns or sink) and format_of(info.format).infers_columns
    )


def _registration(
    topic: str, side: Side, info: FormatInfo, columns: tuple[Column, ...], features: frozenset[SerdeFeature], sink: bool
) -> Registration:
    text = info.property(SCHEMA_ID)
    return Registration(
        subject=f"{topic}-{side.value}",
        side=side,
        format=info,
        columns=columns,
        features=features,
        schema_id=None if text is None else _schema_id(text, side),
        only_if_absent=not sink and text is None,
    )


def _schema_id(text: str, side: Side) -> int:
    """Read the schema id of a format, which in a plan written by hand may be any text."""
    if not (text.isascii() and text.isdigit()):
        raise RegistryError(f"the schema id of the {side.value} format must be a whole number, but is: {text[:40]!r}")
    return int(text)


class _SchemaRequest(msgspec.Struct, frozen=True):
    side: Side
    topic: str
    format: FormatInfo
    properties: SerdeProperties
    unwrapped: bool

    @property
    def prefix(self) -> str:
        """What the properties of this side begin with: KEY or VALUE."""
        return self.side.value.upper()


def _sink_requests(properties: SinkProperties, leftmost: Source) -> tuple[_SchemaRequest, _SchemaRequest]:
    topic = properties.topic.name or ""
    key = FormatInfo(properties.key.format or leftmost.formats.key_format.format)
    value = FormatInfo(properties.value.format or leftmost.formats.value_format.format)
    return (
        _SchemaRequest(Side.KEY, topic, key, properties.key, _unwraps_key(key)),
        _SchemaRequest(Side.VALUE, topic, value, properties.value, properties.wrap_single_value is False),
    )


def _unwraps_key(info: FormatInfo) -> bool:
    return format_of(info.format).chooses_wrapping


def _infer(request: _SchemaRequest, registry: SchemaRegistry) -> tuple[Column, ...] | None:
    if not format_of(request.format.format).infers_columns:
        return None
    schema = _find(request, registry)
    found = columns_of(
        schema,
        request.side,
        unwrapped=request.unwrapped,
        full_name=request.properties.setting(FULL_NAME),
        keep_case=request.properties.schema_id is not None,
        view=registry.snapshot(),
    )
    if found is None:
        raise _missing(request)
    columns = with_role(found, request.side)
    if request.side is Side.KEY and len(columns) > 1:
        raise RegistryError(
            f"The key schema for topic: {request.topic} contains multiple columns, "
            f"which is not supported by ksqlDB at this time: {column_list(columns)}"
        )
    return columns


def with_role(columns: tuple[Column, ...], side: Side) -> tuple[Column, ...]:
    """Return columns as those of a key or a value."""
    role = Role.KEY if side is Side.KEY else Role.VALUE
    return tuple(Column(column.name, column.type, role) for column in columns)


def _find(request: _SchemaRequest, registry: SchemaRegistry) -> RegisteredSchema:
    schema_id = request.properties.schema_id
    subject = f"{request.topic}-{request.side.value}"
    schema = registry.latest(subject) if schema_id is None else registry.by_id(schema_id)
    if schema is None:
        raise _missing(request)
    if schema.format is not LANGUAGES[request.format.format].format:
        side = request.prefix.capitalize()
        raise RegistryError(
            f"{side} schema is not in the expected format. "
            f"You may want to set {request.prefix}_FORMAT to '{_FORMATS[schema.format]}'."
        )
    return schema


def _missing(request: _SchemaRequest) -> RegistryError:
    schema_id = request.properties.schema_id
    suffix = "" if schema_id is None else f" Schema id: {schema_id}."
    return RegistryError(
        f"Schema for message {request.side.value}s on topic '{request.topic}' "
        f"does not exist in the Schema Registry.{suffix}",
        hint=f"register the subject {request.topic}-{request.side.value}, or define the columns in the statement",
    )


def _with_full_name(request: _SchemaRequest, registry: SchemaRegistry) -> SerdeProperties:
    side = request.properties
    if side.schema_id is None or side.setting(FULL_NAME) is not None:
        return side
    # A bare key has no record, so its record name comes from the source's name.
    name = None if request.format.format == "JSON_SR" else full_name_of(_find(request, registry), registry.snapshot())
    if name is None:
        return side
    return replace(side, properties=tuple(sorted((*side.properties, (FULL_NAME, name)))))
