"""Plans CREATE SOURCE … FROM KAFKA … INCLUDE (docs/adr/0012, rules K1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.errors import StatementError, UnsupportedError
from kestrel_sql.formats.registry.memory import SchemaRegistry
from kestrel_sql.formats.serde import Side
from kestrel_sql.plan.commands import CreateKafkaSourceV1
from kestrel_sql.plan.ingestion import ERROR_TYPE, METADATA_TYPES, Envelope, IngestionSpec, MetadataColumn, MetadataItem
from kestrel_sql.plan.step import Formats
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.ddl.columns import check_key_types, is_reserved
from kestrel_sql.planner.ddl.kafka_formats import NO_KEY, MessageSerde, has_schema, message_serde
from kestrel_sql.planner.properties.serdes import source_formats
from kestrel_sql.planner.properties.with_clause import SerdeProperties, SourceProperties, TopicProperties
from kestrel_sql.sql.nodes.kafka_source import CreateGeneratedSource, CreateKafkaSource, Included, IncludeItem
from kestrel_sql.types.schema import Column, Role, Schema
from kestrel_sql.types.sql_types import SqlType, Struct

_LAST_OFFSET = 2**63 - 1

_ITEMS = {
    Included.PARTITION: MetadataItem.PARTITION,
    Included.OFFSET: MetadataItem.OFFSET,
    Included.TIMESTAMP: MetadataItem.TIMESTAMP,
    Included.TOPIC: MetadataItem.TOPIC,
    Included.HEADERS: MetadataItem.HEADERS,
}


class _Message(msgspec.Struct, frozen=True):
    """The serdes of the messages of a statement; `key_item` is its INCLUDE KEY, or None."""

    key: MessageSerde
    value: MessageSerde
    key_item: IncludeItem | None

    @property
    def key_record(self) -> bool:
        """Whether a key of several fields becomes one STRUCT column, because INCLUDE KEY names it."""
        return self.key_item is not None and self.key_item.alias is not None and len(self.key.columns) > 1


def plan_kafka_source(
    statement: CreateKafkaSource, catalog: Catalog, config: Config, registry: SchemaRegistry
) -> CreateKafkaSourceV1 | None:
    """Plan CREATE SOURCE over a topic; return None if the source exists and the statement says IF NOT EXISTS.

    Raises:
        StatementError: the envelope or a format does not allow a clause, or columns clash.
        RegistryError: the registry does not have a schema.
    """
    existing = catalog.sources.get(statement.name)
    if existing is not None:
        if statement.if_not_exists:
            return None
        kind = existing.kind.value.lower()
        raise StatementError(f"Cannot add source '{statement.name}': A {kind} with the same name already exists")
    _check_topic(statement)
    envelope = _envelope(statement, config)
    message = _message(statement, envelope, registry)
    ingestion = _ingestion(statement, envelope, message)
    schema = _schema(statement, message, ingestion, config)
    return CreateKafkaSourceV1(
        source_name=statement.name,
        schema=schema,
        topic_name=statement.topic.name,
        formats=_inherited(statement, message, schema, config),
        ingestion=ingestion,
    )


def refuse_generated(statement: CreateGeneratedSource) -> StatementError:
    """Make the error for a source that does not read Kafka."""
    if statement.include:
        item = statement.include[0]
        included = item.item.value if item.item is Included.HEADERS else "metadata"
        return StatementError(
            f"INCLUDE {included} with non-Kafka sources not supported",
            span=item.span,
            hint="INCLUDE belongs to CREATE SOURCE … FROM KAFKA",
        )
    return UnsupportedError(
        "CREATE SOURCE … FROM LOAD GENERATOR is not supported",
        span=statement.span,
        hint="use CREATE SOURCE … FROM KAFKA",
    )


def _check_topic(statement: CreateKafkaSource) -> None:
    topic = statement.topic
    if not topic.name.strip():
        raise StatementError("the name of the TOPIC must not be empty", span=topic.span)
    invalid = next((offset for offset in topic.start_offsets if not 0 <= offset <= _LAST_OFFSET), None)
    if invalid is not None:
        raise StatementError(
            f"START OFFSET must be a nonnegative integer, got {invalid}", span=topic.span, hint="the first offset is 0"
        )


def _envelope(statement: CreateKafkaSource, config: Config) -> Envelope:
    clause = statement.envelope
    if clause is None:
        return Envelope.NONE
    known = {envelope.value: envelope for envelope in Envelope}
    if clause.name not in known:
        if statement.include:
            raise StatementError(
                "INCLUDE metadata requires ENVELOPE NONE, UPSERT or DEBEZIUM", span=statement.include[0].span
            )
        raise UnsupportedError(
            f"ENVELOPE {clause.name} is not supported", span=clause.span, hint=f"use one of {', '.join(known)}"
        )
    envelope = known[clause.name]
    if clause.inline_errors and envelope is not Envelope.UPSERT:
        raise StatementError(
            f"VALUE DECODING ERRORS belongs to ENVELOPE UPSERT, not to ENVELOPE {clause.name}", span=clause.span
        )
    if clause.inline_errors and not config.flag("kestrel.upsert.inline.errors.enabled"):
        raise StatementError(
            "VALUE DECODING ERRORS = INLINE is disabled.",
            span=clause.span,
            hint="set kestrel.upsert.inline.errors.enabled to true",
        )
    return envelope


def _message(statement: CreateKafkaSource, envelope: Envelope, registry: SchemaRegistry) -> _Message:
    topic = statement.topic.name
    key_items = [item for item in statement.include if item.item is Included.KEY]
    key_item = key_items[0] if key_items else None
    if len(key_items) > 1:
        raise StatementError("INCLUDE KEY may occur only once", span=key_items[1].span)
    if envelope is Envelope.DEBEZIUM and key_item is not None:
        raise StatementError(
            "Cannot use INCLUDE KEY with ENVELOPE DEBEZIUM: Debezium values include all keys.",
            span=key_item.span,
            hint="leave out INCLUDE KEY",
        )
    if envelope is Envelope.DEBEZIUM and statement.value.name != "AVRO":
        raise StatementError(
            f"ENVELOPE DEBEZIUM needs the value format AVRO, not {statement.value.name}", span=statement.value.span
        )
    value = message_serde(statement.value, Side.VALUE, topic, registry)
    if envelope is Envelope.NONE and key_item is None:
        return _Message(NO_KEY, value, None)
    key = _key(statement, envelope, key_item, registry)
    message = _Message(key, value, key_item)
    return _with_after_image(message, statement) if envelope is Envelope.DEBEZIUM else message


def _key(
    statement: CreateKafkaSource, envelope: Envelope, item: IncludeItem | None, registry: SchemaRegistry
) -> MessageSerde:
    topic = statement.topic.name
    if statement.key is not None:
        return message_serde(statement.key, Side.KEY, topic, registry)
    # Without KEY FORMAT only the registry can say that the topic has keys.
    registered = has_schema(statement.value) and statement.value.schema is None
    if registered and registry.latest(f"{topic}-key") is not None:
        return message_serde(statement.value, Side.KEY, topic, registry)
    hint = f"KEY FORMAT TEXT VALUE FORMAT {statement.value.name} …"
    if envelope is Envelope.NONE and item is not None:
        message = "INCLUDE KEY requires specifying KEY FORMAT .. VALUE FORMAT, got bare FORMAT"
        raise StatementError(message, span=item.span, hint=hint)
    raise StatementError(
        f"ENVELOPE {envelope.value} requires that KEY FORMAT be specified", span=statement.span, hint=hint
    )


def _with_after_image(message: _Message, statement: CreateKafkaSource) -> _Message:
    """Reduce the value of a Debezium message to its after-image."""
    image = next((column for column in message.value.columns if column.name == "AFTER"), None)
    if image is None or not isinstance(image.type, Struct):
        raise StatementError(
            "'after' field is not present in the value of ENVELOPE DEBEZIUM, or is not a record",
            span=statement.value.span,
            hint="the value of a Debezium message is a record with the fields before, after and op",
        )
    fields = {field.name: field.type for field in image.type.fields}
    missing = [column.name for column in message.key.columns if fields.get(column.name) != column.type]
    if missing:
        raise StatementError(
            f"the after-image does not have the key's fields {', '.join(missing)}, or not with the type in the key",
            span=statement.span,
            hint="compare the schemas of key and value",
        )
    value = MessageSerde(format=message.value.format, columns=(image,), inherited=message.value.inherited)
    return _Message(message.key, value, None)


def _ingestion(statement: CreateKafkaSource, envelope: Envelope, message: _Message) -> IngestionSpec:
    return IngestionSpec(
        envelope=envelope,
        formats=Formats(
            key_format=message.key.format,
            value_format=message.value.format,
            key_features=message.key.features,
            value_features=message.value.features,
        ),
        message_schema=Schema((*message.key.columns, *message.value.columns)),
        key_record=message.key_record,
        inline_errors=statement.envelope is not None and statement.envelope.inline_errors,
        metadata=tuple(_metadata(item) for item in _metadata_items(statement)),
        start_offsets=statement.topic.start_offsets,
    )


def _metadata_items(statement: CreateKafkaSource) -> list[IncludeItem]:
    return [item for item in statement.include if item.item is not Included.KEY]


def _metadata(item: IncludeItem) -> MetadataColumn:
    if item.item is Included.HEADER:
        kind = MetadataItem.HEADER_BYTES if item.as_bytes else MetadataItem.HEADER_TEXT
        return MetadataColumn(item=kind, header_key=item.header_key)
    return MetadataColumn(item=_ITEMS[item.item])


def _schema(statement: CreateKafkaSource, message: _Message, ingestion: IngestionSpec, config: Config) -> Schema:
    """Return the columns in Materialize's order: key, value, error, then metadata in the order of the statement."""
    keys = _key_columns(message, ingestion)
    error = (Column(_error_name(statement), ERROR_TYPE),) if ingestion.inline_errors else ()
    metadata = tuple(
        Column(item.alias or item.item.value, METADATA_TYPES[column.item])
        for item, column in zip(_metadata_items(statement), ingestion.metadata, strict=True)
    )
    columns = _renamed(statement, (*keys, *ingestion.value_columns(), *error, *metadata))
    _check_names(statement, columns, config)
    schema = Schema(columns)
    check_key_types(schema.key)
    return schema


def _key_columns(message: _Message, ingestion: IngestionSpec) -> tuple[Column, ...]:
    alias = message.key_item.alias if message.key_item is not None else None
    types: Sequence[SqlType] = ingestion.key_types()
    if alias is not None:
        return (Column(alias, types[0], Role.KEY),)
    return tuple(Column(column.name, column.type, Role.KEY) for column in message.key.columns)


def _error_name(statement: CreateKafkaSource) -> str:
    return (statement.envelope.error_name if statement.envelope is not None else None) or "ERROR"


def _renamed(statement: CreateKafkaSource, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    if len(statement.columns) > len(columns):
        raise StatementError(
            f"{statement.name} names {len(statement.columns)} columns, but its messages have {len(columns)}",
            span=statement.span,
            hint=f"the columns are {', '.join(column.name for column in columns)}",
        )
    names = (*statement.columns, *(column.name for column in columns[len(statement.columns) :]))
    return tuple(Column(name, column.type, column.role) for name, column in zip(names, columns, strict=True))


def _check_names(statement: CreateKafkaSource, columns: tuple[Column, ...], config: Config) -> None:
    counts = Counter(column.name for column in columns)
    duplicate = next((name for name, count in counts.items() if count > 1), None)
    if duplicate is not None:
        raise StatementError(
            f'column "{duplicate}" specified more than once',
            span=statement.span,
            hint=f"rename one with AS, or name all columns: CREATE SOURCE {statement.name} (a, b, …) FROM KAFKA",
        )
    reserved = next((column.name for column in columns if is_reserved(column.name, config)), None)
    if reserved is not None:
        raise StatementError(
            f"'{reserved}' is a reserved column name. You cannot use it as a name for a column.", span=statement.span
        )


def _inherited(statement: CreateKafkaSource, message: _Message, schema: Schema, config: Config) -> Formats:
    """Return the formats that queries inherit: formats with schemas stay, all others become JSON, or KAFKA for keys."""
    key = "JSON" if message.key_record and message.key.inherited == "KAFKA" else message.key.inherited
    properties = SourceProperties(
        topic=TopicProperties(name=statement.topic.name),
        key=SerdeProperties(format=key),
        value=SerdeProperties(format=message.value.inherited),
    )
    return source_formats(statement.name, properties, schema, config)
