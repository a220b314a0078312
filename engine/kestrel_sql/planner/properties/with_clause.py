"""Validates the WITH clauses of CREATE, CREATE AS and INSERT INTO, as far as no schema is needed."""

from __future__ import annotations

import re

import msgspec

from kestrel_sql.errors import PropertyError, SqlSyntaxError
from kestrel_sql.formats.properties import DELIMITER, FULL_NAME, NULLABLE, SCHEMA_ID
from kestrel_sql.formats.table import format_of
from kestrel_sql.java.time.pattern import compile_pattern
from kestrel_sql.plan.step import WindowInfo, WindowType
from kestrel_sql.planner.properties.values import (
    INSERT_KEYS,
    SINK_KEYS,
    SOURCE_KEYS,
    WithClause,
    check_delimiter,
    invalid,
    parse_duration,
    parse_identifier,
)
from kestrel_sql.sql.nodes.statements import Properties, SourceKind


class TopicProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The topic of a source or sink; None means the default name, or the number that an existing topic has."""

    name: str | None = None
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None


class SerdeProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The format of the key or of the value as a statement gives it; `format` is upper case.

    `properties` are the format's properties by their names in plans, sorted; `schemaId` is one of them.
    """

    format: str | None = None
    properties: tuple[tuple[str, str], ...] = ()

    def setting(self, name: str) -> str | None:
        """The value of the format property `name`, or None."""
        return dict(self.properties).get(name)

    @property
    def schema_id(self) -> int | None:
        """The id of a schema in the registry, or None."""
        text = self.setting(SCHEMA_ID)
        return None if text is None else int(text)


class TimestampProperty(msgspec.Struct, frozen=True, kw_only=True):
    """TIMESTAMP and TIMESTAMP_FORMAT; `column` is an exact column name."""

    column: str
    format: str | None = None


class SourceProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The WITH clause of CREATE STREAM|TABLE over a topic."""

    topic: TopicProperties
    key: SerdeProperties
    value: SerdeProperties
    wrap_single_value: bool | None = None
    timestamp: TimestampProperty | None = None
    window: WindowInfo | None = None
    connector: str | None = None


class SinkProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The WITH clause of CREATE STREAM|TABLE AS SELECT."""

    topic: TopicProperties = TopicProperties()
    key: SerdeProperties = SerdeProperties()
    value: SerdeProperties = SerdeProperties()
    wrap_single_value: bool | None = None
    timestamp: TimestampProperty | None = None
    headers: str | None = None
    """The exact name of the column with the headers of output records."""


def source_properties(properties: Properties) -> SourceProperties:
    """Validate the WITH clause of a CREATE over a topic.

    Raises:
        PropertyError: a property breaks one of rules L6.
        FormatError: a format is unknown.
    """
    clause = WithClause(properties, SOURCE_KEYS)
    if "KAFKA_TOPIC" not in clause:
        raise PropertyError(
            'Failed to prepare statement: Missing required property "KAFKA_TOPIC" which has no default value.'
        )
    return SourceProperties(
        topic=_topic(clause),
        key=_serde(clause, "KEY"),
        value=_serde(clause, "VALUE"),
        wrap_single_value=clause.boolean("WRAP_SINGLE_VALUE"),
        timestamp=_timestamp(clause),
        window=_window(clause),
        connector=clause.text("SOURCED_BY_CONNECTOR") or clause.text("SOURCE_CONNECTOR"),
    )


def sink_properties(properties: Properties) -> SinkProperties:
    """Validate the WITH clause of a CREATE AS.

    Raises:
        PropertyError: a property breaks one of rules L6.
        FormatError: a format is unknown.
    """
    clause = WithClause(properties, SINK_KEYS)
    headers = clause.text("HEADERS")
    return SinkProperties(
        topic=_topic(clause),
        key=_serde(clause, "KEY"),
        value=_serde(clause, "VALUE"),
        wrap_single_value=clause.boolean("WRAP_SINGLE_VALUE"),
        timestamp=_timestamp(clause),
        headers=None if headers is None else parse_identifier(headers),
    )


_QUERY_ID = re.compile(r"[A-Z0-9_]+")
_RESERVED_IDS = ("INSERTQUERY_", "CTAS_", "CSAS_", "CST_")


def insert_query_id(properties: Properties) -> str | None:
    """Validate the WITH clause of an INSERT INTO, and return the query id that it gives.

    Raises:
        PropertyError: a property is unknown, or the query id is not a name or is reserved.
    """
    query_id = WithClause(properties, INSERT_KEYS).text("QUERY_ID")
    if query_id is None:
        return None
    upper = query_id.upper()
    if not _QUERY_ID.fullmatch(upper):
        raise invalid("QUERY_ID", f"Query IDs may contain only alphanumeric characters and '_'. Got: '{query_id}'")
    if upper.startswith(_RESERVED_IDS):
        raise invalid("QUERY_ID", f"Query IDs must not start with a reserved query ID prefix. Got: '{query_id}'")
    return upper


def _topic(clause: WithClause) -> TopicProperties:
    if "CLEANUP_POLICY" in clause:
        raise PropertyError(
            "Invalid config variable in the WITH clause: CLEANUP_POLICY. "
            "The CLEANUP_POLICY config is set automatically according to the kind of the source and cannot be changed."
        )
    name = clause.text("KAFKA_TOPIC")
    if name is not None and not name.strip():
        raise invalid("KAFKA_TOPIC", "String must be non-empty")
    return TopicProperties(
        name=name,
        partitions=_size(clause, "PARTITIONS", "Number of partitions"),
        replicas=_size(clause, "REPLICAS", "Replication factor", bits=16),
        retention_ms=clause.integer("RETENTION_MS", 64),
    )


def _size(clause: WithClause, name: str, meaning: str, bits: int = 32) -> int | None:
    size = clause.integer(name, bits)
    if size is not None and (size == 0 or size < -1):
        raise invalid(name, f"{meaning} must be larger than 0, or -1 to use the default value. Got: {size}")
    return size


def _serde(clause: WithClause, prefix: str) -> SerdeProperties:
    if "FORMAT" in clause and f"{prefix}_FORMAT" in clause:
        raise PropertyError(
            f"Cannot supply both '{prefix}_FORMAT' and 'FORMAT' properties, "
            "as 'FORMAT' sets both key and value formats. "
            "Either use just 'FORMAT', or use 'KEY_FORMAT' and 'VALUE_FORMAT'."
        )
    name = clause.text("FORMAT") or clause.text(f"{prefix}_FORMAT")
    properties = _format_properties(clause, prefix)
    if name is not None and NULLABLE in properties and NULLABLE not in format_of(name).properties:
        raise PropertyError(
            f"Property {prefix}_PROTOBUF_NULLABLE_REPRESENTATION can only be enabled with protobuf format"
        )
    return SerdeProperties(
        format=None if name is None else format_of(name).name,
        properties=tuple(sorted(properties.items())),
    )


def _format_properties(clause: WithClause, prefix: str) -> dict[str, str]:
    properties: dict[str, str] = {}
    delimiter = clause.text(f"{prefix}_DELIMITER")
    if delimiter is not None:
        check_delimiter(f"{prefix}_DELIMITER", delimiter)
        properties[DELIMITER] = delimiter
    full_name = _full_name(clause, prefix)
    if full_name is not None:
        properties[FULL_NAME] = full_name
    schema_id = clause.integer(f"{prefix}_SCHEMA_ID")
    if schema_id is not None:
        properties[SCHEMA_ID] = str(schema_id)
    nullable = clause.choice(f"{prefix}_PROTOBUF_NULLABLE_REPRESENTATION", ("OPTIONAL", "WRAPPER"))
    if nullable is not None:
        properties[NULLABLE] = nullable.lower()
    return properties


def _full_name(clause: WithClause, prefix: str) -> str | None:
    name = clause.text(f"{prefix}_SCHEMA_FULL_NAME")
    legacy = clause.text("VALUE_AVRO_SCHEMA_FULL_NAME") if prefix == "VALUE" else None
    if name is not None and legacy is not None:
        raise PropertyError(
            "Cannot supply both 'VALUE_AVRO_SCHEMA_FULL_NAME' and 'VALUE_SCHEMA_FULL_NAME' properties. "
            "Please use 'VALUE_SCHEMA_FULL_NAME'."
        )
    return name if name is not None else legacy


def _timestamp(clause: WithClause) -> TimestampProperty | None:
    pattern = clause.text("TIMESTAMP_FORMAT")
    if pattern is not None:
        check_pattern(pattern)
    column = clause.text("TIMESTAMP")
    if column is None:
        return None
    try:
        return TimestampProperty(column=parse_identifier(column), format=pattern)
    except SqlSyntaxError as error:
        raise invalid("TIMESTAMP", error.message) from error


def check_pattern(pattern: str) -> None:
    """Check that a timestamp pattern is a valid Java pattern.

    Raises:
        PropertyError: it is not.
    """
    try:
        compile_pattern(pattern)
    except ValueError as error:
        reason = f"Invalid datetime format for config:TIMESTAMP_FORMAT, reason:{error}, value:{pattern}"
        raise invalid("TIMESTAMP_FORMAT", reason) from error


def check_retention(kind: SourceKind, topic: TopicProperties, *, expires: bool) -> None:
    """Check that RETENTION_MS is not set for a topic that is compacted only (rules L6).

    Raises:
        PropertyError: the source is a table, and not one whose query deletes old windows.
    """
    if topic.retention_ms is not None and kind is SourceKind.TABLE and not expires:
        raise PropertyError(
            "Invalid config variable in the WITH clause: RETENTION_MS. "
            "Tables without windows, and tables over a topic, do not support retention.",
            hint="leave out RETENTION_MS; tombstones remove rows of a table",
        )


def _window(clause: WithClause) -> WindowInfo | None:
    size = clause.text("WINDOW_SIZE")
    type_name = clause.choice("WINDOW_TYPE", tuple(kind.value for kind in WindowType))
    if type_name is None:
        if size is not None:
            raise PropertyError("'WINDOW_SIZE' requires 'WINDOW_TYPE' to be provided in the WITH clause.")
        return None
    kind = WindowType(type_name)
    if kind is WindowType.SESSION:
        if size is not None:
            raise PropertyError("'WINDOW_SIZE' should not be set for SESSION windows.")
        return WindowInfo(kind)
    if size is None:
        raise PropertyError(
            f"{type_name} windows require 'WINDOW_SIZE' to be provided in the WITH clause. "
            "For example: 'WINDOW_SIZE'='10 SECONDS'"
        )
    try:
        return WindowInfo(kind, parse_duration(size))
    except ValueError as error:
        raise invalid("WINDOW_SIZE", str(error)) from error
