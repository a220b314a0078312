"""The driver's view of topics: the schemas that a case declares, and the topics known at the end of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType

import msgspec

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.partitions import declared_partitions
from kestrel_qtt.judge.json_text import write_json
from kestrel_qtt.ksqldb.internal_topics import InternalTopic, internal_topics
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import EngineError, FormatError
from kestrel_sql.formats.registered.columns import schema_text
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import SchemaFormat, SchemaReference
from kestrel_sql.formats.serde import Side
from kestrel_sql.java.hash_order import java_hash_order
from kestrel_sql.plan.step import FormatInfo, Formats, SerdeFeature, WindowInfo
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import CreateSource, CreateType
from kestrel_sql.types.schema import Column

NO_CACHE: Mapping[str, object] = MappingProxyType({"ksql.streams.cache.max.bytes.buffering": 0})
"""What ksqlDB's own harness sets beside its base configuration (rule Q7.1)."""

_OPTIMIZATION = "ksql.streams.topology.optimization"


class _Schema(msgspec.Struct, frozen=True):
    """A schema to register: of a declared topic, or generated for a topic that a statement declares by its columns."""

    language: SchemaFormat
    text: str
    id: int | None = None
    references: tuple[model.SchemaReference, ...] = ()


def register_topics(session: Session, case: model.Case) -> None:
    """Tell a session the partitions of all topics, and register their schemas before the first statement.

    Schemas with ids are registered first (rules Q4.3).

    ksqlDB's harness keeps topics in a `HashMap` and registers the key of a topic before its value; that gives the ids
    that cases name.
    """
    session.partitions.update(declared_partitions(case.topics))
    declared = dict(_declared(case))
    if not declared:
        return
    wanted = {**_inferred(session, case), **declared}
    places = {topic: place for place, topic in enumerate(java_hash_order(map(_topic_of, wanted)))}
    for subject, schema in sorted(
        wanted.items(), key=lambda each: (each[1].id is None, places[_topic_of(each[0])], each[0])
    ):
        imports = tuple(SchemaReference(reference.name, reference.name, 1) for reference in schema.references)
        session.registry.register(subject, schema.language, schema.text, imports, schema_id=schema.id)
    # Cases give ids to topics only, so the schemas that these import are registered after them.
    for reference in (reference for schema in wanted.values() for reference in schema.references):
        language = _language(reference.format)
        session.registry.register(reference.name, language, _text(language, reference.schema))


def _topic_of(subject: str) -> str:
    return subject.rpartition("-")[0]


def _declared(case: model.Case) -> Iterator[tuple[str, _Schema]]:
    for topic in case.topics:
        sides = (
            ("key", topic.key_format, topic.key_schema, topic.key_schema_id, topic.key_references),
            ("value", topic.value_format, topic.value_schema, topic.value_schema_id, topic.value_references),
        )
        for side, format_name, schema, schema_id, references in sides:
            if schema is not None:
                language = _language(format_name)
                yield f"{topic.name}-{side}", _Schema(language, _text(language, schema), schema_id, references)


def _inferred(session: Session, case: model.Case) -> dict[str, _Schema]:
    """The schemas of topics whose columns statements declare, by subject.

    An error in a statement is reported when it is executed.
    """
    trial = Session(config=session.config, functions=session.functions)
    with suppress(EngineError):
        for parsed in trial.parse("\n".join(case.statements)):
            if isinstance(parsed.statement, CreateType | CreateSource):
                with suppress(EngineError):
                    trial.execute(parsed)
    subjects = ((subject, trial.registry.latest(subject)) for subject in trial.registry.subjects())
    return {subject: _Schema(found.format, found.text) for subject, found in subjects if found is not None}


def _text(language: SchemaFormat, schema: model.Json) -> str:
    return schema if isinstance(schema, str) and language is SchemaFormat.PROTOBUF else write_json(schema)


def _language(name: str | None) -> SchemaFormat:
    word = (name or "AVRO").upper()
    return SchemaFormat.JSON if word in ("JSON", "JSON_SR") else SchemaFormat(word)


def topic_states(session: Session, case: model.Case) -> Iterator[model.TopicState]:
    """Give the topics known at the end: those of sources and sinks, and the internal ones of every query."""
    declared = {topic.name: topic for topic in case.topics}
    for source in {source.topic: source for source in session.catalog.sources.values()}.values():
        topic = declared.get(source.topic)
        yield model.TopicState(
            name=source.topic,
            key_format=_format_info(source.formats, Side.KEY, source.window),
            value_format=_format_info(source.formats, Side.VALUE, None),
            partitions=topic.partitions if topic else 4,
            key_schema_id=topic.key_schema_id if topic else None,
            value_schema_id=topic.value_schema_id if topic else None,
            key_schema=_registered(session, f"{source.topic}-key"),
            value_schema=_registered(session, f"{source.topic}-value"),
        )
    for query in session.queries.values():
        optimized = query.config.get(_OPTIMIZATION) != "none"
        for internal in internal_topics(
            query.plan, session.config["ksql.service.id"], session.functions, optimized=optimized
        ):
            yield _internal_state(internal)


def _internal_state(topic: InternalTopic) -> model.TopicState:
    return model.TopicState(
        name=topic.name,
        key_format=_format_info(topic.formats, Side.KEY, topic.window),
        value_format=_format_info(topic.formats, Side.VALUE, None),
        key_schema=_generated(topic.key, topic.formats.key_format, topic.formats.key_features),
        value_schema=_generated(topic.value, topic.formats.value_format, topic.formats.value_features),
        internal=True,
    )


def _registered(session: Session, subject: str) -> model.Json:
    known = session.registry.latest(subject)
    return None if known is None else schema_json(known.format, known.text)


def _generated(columns: tuple[Column, ...], info: FormatInfo, features: frozenset[SerdeFeature]) -> model.Json:
    """The schema that writing the columns would register, None for a format without schemas or without columns."""
    language = LANGUAGES.get(info.format)
    if language is None or not columns:
        return None
    try:
        text = schema_text(columns, info, unwrapped=len(columns) == 1 and SerdeFeature.UNWRAP_SINGLES in features)
    except FormatError:
        return None
    return schema_json(language.format, text)


def schema_json(language: SchemaFormat, text: str) -> model.Json:
    """A schema as an expectation writes it: JSON, or the text of a .proto file."""
    if language is SchemaFormat.PROTOBUF:
        return text
    parsed: model.Json = json.loads(text)
    return parsed


def _format_info(formats: Formats, side: Side, window: WindowInfo | None) -> model.FormatInfo:
    info, features = (
        (formats.key_format, formats.key_features)
        if side is Side.KEY
        else (formats.value_format, formats.value_features)
    )
    return model.FormatInfo(
        format=info.format,
        properties=dict(info.properties),
        features=frozenset(feature.value for feature in features),
        window_type=window.type.value if window else None,
        window_size=window.size_ms if window else None,
    )


def source_state(source: Source) -> model.SourceState:
    """A stream or table as post conditions see it."""
    window = (None, None) if source.window is None else (source.window.type.value, source.window.size_ms)
    return model.SourceState(
        name=source.name,
        kind=source.kind.value.lower(),
        schema=str(source.schema),
        key_format=source.formats.key_format.format,
        value_format=source.formats.value_format.format,
        key_window=window,
        key_features=frozenset(feature.value for feature in source.formats.key_features),
        value_features=frozenset(feature.value for feature in source.formats.value_features),
        is_source=source.is_source,
        topic=source.topic,
        value_columns=frozenset(column.name for column in source.schema.value),
    )
