"""Streams, tables and topics as the API shows them."""

from __future__ import annotations

from typing import Any

from kestrel_sql.admin.view import EngineView
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.server.entities.schemas import field_info
from kestrel_sql.session.session import PersistentQuery
from kestrel_sql.sql.nodes.statements import SourceKind


def source_entry(source: Source) -> dict[str, Any]:
    """A stream or table as an entry of LIST."""
    return {
        "type": source.kind.value,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.formats.key_format.format,
        "valueFormat": source.formats.value_format.format,
        "isWindowed": source.window is not None,
    }


def sources_of_kind(kind: SourceKind, view: EngineView) -> list[Source]:
    """The streams or the tables, by name."""
    return sorted((s for s in view.session.catalog.sources.values() if s.kind is kind), key=lambda source: source.name)


def source_description(source: Source, view: EngineView, *, extended: bool) -> dict[str, Any]:
    """A stream or table as a `SourceDescription`."""
    partitions, replicas = view.broker.partitions_and_replicas([source.topic]).get(source.topic, (0, 0))
    return {
        "name": source.name,
        "windowType": None if source.window is None else source.window.type.value,
        "readQueries": [running_query(query, view) for query in view.readers(source)],
        "writeQueries": [running_query(query, view) for query in view.writers(source)],
        "fields": [field_info(column) for column in source.schema.columns],
        "type": source.kind.value,
        "timestamp": "" if source.timestamp_column is None else source.timestamp_column.column,
        "statistics": "",
        "errorStats": "",
        "extended": extended,
        "keyFormat": source.formats.key_format.format,
        "valueFormat": source.formats.value_format.format,
        "topic": source.topic,
        "partitions": partitions,
        "replication": replicas,
        "statement": source.statement_text,
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }


def running_query(query: PersistentQuery, view: EngineView) -> dict[str, Any]:
    """A persistent query as a `RunningQuery`."""
    sink = view.session.catalog.sources.get(query.plan.sink or "")
    state = view.state(query)
    return {
        "queryString": query.statement_text,
        "sinks": [] if query.plan.sink is None else [query.plan.sink],
        "sinkKafkaTopics": [] if sink is None else [sink.topic],
        "id": query.id,
        "statusCount": {state: 1},
        "queryType": "PERSISTENT",
        "state": state,
    }


def topic_entries(view: EngineView, *, extended: bool) -> list[dict[str, Any]]:
    """All topics by name; `replicaInfo` holds the number of replicas of each partition."""
    names = sorted({*view.broker.topics, *(source.topic for source in view.session.catalog.sources.values())})
    entries = []
    for name in names:
        partitions, replicas = view.broker.partitions_and_replicas([name]).get(name, (0, 0))
        entry: dict[str, Any] = {"name": name, "replicaInfo": [replicas] * partitions}
        if extended:
            entry |= {"consumerCount": 0, "consumerGroupCount": 0}
        entries.append(entry)
    return entries
