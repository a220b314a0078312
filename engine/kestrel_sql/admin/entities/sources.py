"""Streams, tables and topics as the API shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kestrel_sql.admin.entities.queries import consumer_group, shown_state, status_of
from kestrel_sql.admin.entities.schemas import field_info
from kestrel_sql.admin.view import EngineView
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.session.session import PersistentQuery
from kestrel_sql.sql.nodes.statements import SourceKind


def source_entry(source: Source) -> dict[str, object]:
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


def source_description(source: Source, view: EngineView, *, extended: bool) -> dict[str, object]:
    """A stream or table as a `SourceDescription`."""
    partitions, replicas = view.broker.partitions_and_replicas([source.topic]).get(source.topic, (0, 0))
    return {
        **_standing(source, view, extended=extended),
        "name": source.name,
        "windowType": None if source.window is None else source.window.type.value,
        "readQueries": [running_query(query, view) for query in view.readers(source)],
        "writeQueries": [running_query(query, view) for query in view.writers(source)],
        "fields": [field_info(column) for column in source.schema.columns],
        "type": source.kind.value,
        "timestamp": "" if source.timestamp_column is None else source.timestamp_column.column,
        "extended": extended,
        "keyFormat": source.formats.key_format.format,
        "valueFormat": source.formats.value_format.format,
        "topic": source.topic,
        "partitions": partitions,
        "replication": replicas,
        "statement": source.statement_text,
        "sourceConstraints": list(view.session.catalog.derived(source.name)),
        "clusterErrorStats": [],
    }


def _standing(source: Source, view: EngineView, *, extended: bool) -> dict[str, object]:
    """What DESCRIBE EXTENDED tells of the queries over a source."""
    if not extended:
        return {"statistics": "", "errorStats": "", "queryOffsetSummaries": [], "clusterStatistics": []}
    readers, writers = view.readers(source), view.writers(source)
    read = [view.counts[query.id][0] for query in readers if query.id in view.counts]
    written = [view.counts[query.id][1] for query in writers if query.id in view.counts]
    counted = [
        (name, float(sum(rows)))
        for name, rows in (("consumer-total-messages", read), ("total-messages", written))
        if sum(rows)
    ]
    failed = dict.fromkeys(query.id for query in (*readers, *writers) if query.id in view.failed)
    now = int(time.time() * 1000)
    return {
        "statistics": " ".join(f"{name}: {value:g}" for name, value in counted),
        "errorStats": "\n".join(view.failed[name].message for name in failed),
        "queryOffsetSummaries": [summary for query in writers if (summary := _summary(query, view)) is not None],
        "clusterStatistics": [
            {"name": name, "host": view.host, "value": value, "timestamp": now} for name, value in counted
        ],
    }


def _summary(query: PersistentQuery, view: EngineView) -> dict[str, object] | None:
    """How far a query has read its topics, as a `QueryOffsetSummary`; None where there are no offsets."""
    topics: dict[str, list[dict[str, int]]] = {}
    for each in view.offsets(query.id):
        read = {"logStartOffset": each.start, "logEndOffset": each.end, "consumerOffset": each.committed}
        topics.setdefault(each.topic, []).append({"partition": each.partition, **read})
    summaries = [{"kafkaTopic": topic, "offsets": offsets} for topic, offsets in topics.items()]
    return {"groupId": consumer_group(query, view), "topicSummaries": summaries} if summaries else None


def running_query(query: PersistentQuery, view: EngineView) -> dict[str, object]:
    """A persistent query as a `RunningQuery`."""
    sink = view.session.catalog.sources.get(query.plan.sink or "")
    state = view.state(query)
    return {
        "queryString": query.statement_text,
        "sinks": [] if query.plan.sink is None else [query.plan.sink],
        "sinkKafkaTopics": [] if sink is None else [sink.topic],
        "id": query.id,
        "statusCount": {status_of(state): 1},
        "queryType": "PERSISTENT",
        "state": shown_state(state),
    }


def topic_entries(view: EngineView, *, hidden: bool, extended: bool) -> list[dict[str, object]]:
    """The topics by name; `replicaInfo` holds the number of replicas of each partition."""
    names = view.topics(hidden=hidden)
    counts = view.broker.partitions_and_replicas(names)
    groups = [*view.broker.assignments(), *_read_by_queries(view, counts)] if extended else []
    entries = []
    for name in names:
        partitions, replicas = counts.get(name, (0, 0))
        entry: dict[str, Any] = {"name": name, "replicaInfo": [replicas] * partitions}
        if extended:
            read = [group[name] for group in groups if name in group]
            entry |= {"consumerCount": sum(read), "consumerGroupCount": len(read)}
        entries.append(entry)
    return entries


def _read_by_queries(view: EngineView, counts: Mapping[str, tuple[int, int]]) -> list[dict[str, int]]:
    """How many partitions each query reads, by topic; what runs it joins no consumer group."""
    sources = view.session.catalog.sources
    queries = (query for query in view.session.queries.values() if query.id not in view.failed)
    topics = ({sources[name].topic for name in query.plan.sources if name in sources} for query in queries)
    return [{name: counts.get(name, (0, 0))[0] for name in read} for read in topics]
