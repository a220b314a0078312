"""Whether a topic is what a statement says of it, on a broker and in memory (rules L6)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kestrel_sql.errors import Span, StatementError, TargetError
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1
from kestrel_sql.planner.properties.with_clause import TopicProperties, sink_properties
from kestrel_sql.sql.nodes.statements import CreateAs

WEEK_MS = 604_800_000
"""How long a broker keeps records if nobody says anything else."""


class TopicShape(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a topic.

    `retention_ms` is -1 for unlimited retention, and None if the user may not read it.
    """

    partitions: int
    replicas: int
    retention_ms: int | None


def cleanup_policy(command: CreateStreamV1 | CreateTableV1, *, is_sink: bool) -> str:
    """The cleanup.policy of a new topic: that of a table is compacted, and a windowed sink deletes old windows, too."""
    if isinstance(command, CreateStreamV1):
        return "delete"
    return "compact,delete" if is_sink and command.window_info is not None else "compact"


def given_topic(statement: CreateAs) -> TopicProperties:
    """The properties that a statement gives for its sink, with at least the retention of its window."""
    given, window = sink_properties(statement.properties).topic, statement.query.window
    if window is None or window.retention is None:
        return given
    return replace(given, retention_ms=max(window.retention.millis, given.retention_ms or 0))


def inherited(given: TopicProperties, source: TopicShape | None, *, policy: str) -> TopicProperties:
    """The properties that a statement gives for its sink, completed with those of the source."""
    if source is None:
        return replace(given, partitions=given.partitions or 1)
    keeps = policy == "compact" or given.retention_ms is not None
    return replace(
        given,
        partitions=given.partitions or source.partitions,
        replicas=given.replicas or source.replicas,
        retention_ms=given.retention_ms if keeps else source.retention_ms,
    )


def missing_topic(name: str, span: Span | None) -> TargetError:
    """Make the error for a topic that a statement declares, but does not make."""
    return TargetError(
        f"the topic {name} does not exist",
        span=span,
        hint="PARTITIONS = n in the WITH clause creates it; case matters",
    )


def check_shape(name: str, found: TopicShape, wanted: TopicProperties, span: Span | None = None) -> None:
    """Check that an existing topic has what a statement gives; more replicas are accepted.

    Raises:
        StatementError: names the differences.
    """
    flaws = []
    if wanted.partitions is not None and wanted.partitions != found.partitions:
        flaws.append(f"{found.partitions} partitions, not {wanted.partitions}")
    if wanted.replicas is not None and wanted.replicas > found.replicas:
        flaws.append(f"{found.replicas} replicas, not {wanted.replicas}")
    if wanted.retention_ms is not None and found.retention_ms is not None and wanted.retention_ms != found.retention_ms:
        flaws.append(f"a retention of {found.retention_ms} ms, not {wanted.retention_ms} ms")
    if flaws:
        raise StatementError(
            f"the topic {name} exists and has {', '.join(flaws)}",
            span=span,
            hint=(
                "give the topic's own values in the WITH clause, change the topic, or name another one with KAFKA_TOPIC"
            ),
        )
