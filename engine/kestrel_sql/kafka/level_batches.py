"""Writes the batches of a query with state in the tasks of its last level (docs/adr/0053).

Such a task computes all outputs of some tasks of the query, and so all records of some partitions of its topic. It
writes them in one transaction, which commits the number of the batch for its slot, the number of its partition of
Spark's state. The job that computes a batch is the job that writes it; the driver collects the reports of its tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql import DataFrame

from kestrel_sql.dataflow.graph import Graph
from kestrel_sql.dataflow.log_entries import log_entry
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.sink.distribute import OUTPUTS, merged_outputs, pack_outputs, with_partitions
from kestrel_sql.kafka.sink.sink import Delivery, Written, forget, layout_now, outcome, owners, refuse_newer
from kestrel_sql.kafka.sink.task import REPORT, Job, ReportRow, Share, entries_in
from kestrel_sql.kafka.sink.transaction import Layout
from kestrel_sql.operators.operator import Scope
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.state.packing import separates_tasks
from kestrel_sql.topics.records import LogEntry

END = pack_outputs, OUTPUTS
"""The last pass in the level, and the schema of its rows."""

_TOLD = "kestrel.batch"
"""The local property of Spark that tells tasks what changes from batch to batch, as functions are pickled once."""


class LevelBatches(msgspec.Struct, kw_only=True):
    """The batches of a query whose last level writes what it makes.

    Attributes:
        query: the name of the query, from which those of its consumer group and transactional ids are made.
        config: the broker.
        delivery: the guarantee.
        run: the number of the start from the checkpoint.
        place: a topic that the query reads, with a partition for each task, and their number: there stand the numbers
            of batches, by slot.
        sinks: the topics that it writes, each with the length in bytes of the window at the end of a key.
        holds: whether the entries of a batch are looked at before it is written.
    """

    query: str
    config: KafkaConfig
    delivery: Delivery
    run: int
    place: tuple[str, int]
    sinks: Mapping[str, int]
    holds: bool = False
    _is_latest: bool = False

    @property
    def group(self) -> str:
        """The consumer group of the slots, which is not that of the sink: its numbers stand elsewhere (ADR 16)."""
        return f"{self.query}-slots"

    def close(self) -> None:
        """Close the clients that the driver keeps for the query, which must have ended."""
        forget(self.config, self.group)

    def frame(self, outputs: DataFrame) -> DataFrame:
        """Let the tasks of the level write their rows of `OUTPUTS`, unless they are to be held back."""
        return outputs if self.holds else outputs.mapInArrow(self._writing(), REPORT)

    def write(
        self, frame: DataFrame, batch: int, slots: int, check: Callable[[Sequence[LogEntry]], None] | None = None
    ) -> Written:
        """Compute and write a batch; called from `foreachBatch` with what `frame` has made.

        `slots` is the number of partitions of the level. `check` is as in `kestrel_sql.kafka.sink.sink.write_batch`.

        Raises:
            QueryError: the broker refuses a record or does not answer; names topic, partition and offset of the source
                record. Or another run of the query has written this batch or a later one.
        """
        layout = layout_now(self.config, self.group, slots)
        if self.delivery is Delivery.EXACTLY_ONCE and not self._is_latest:
            refuse_newer(self.config, self.group, dict([self.place]), batch, self.run)
            self._is_latest = True
        known = {name: count for name, count in layout.partitions.items() if name in self.sinks}
        job = replace(self._job(), batch=batch, layout=Layout(slots, known), owners=owners(self.group))
        told = {"batch": batch, "slots": slots, "partitions": known, "owners": [*job.owners.items()]}
        frame.sparkSession.sparkContext.setLocalProperty(_TOLD, json.dumps(told))
        return outcome(job, self._reported(frame, check))

    def _reported(self, frame: DataFrame, check: Callable[[Sequence[LogEntry]], None] | None) -> Sequence[ReportRow]:
        if not self.holds:
            return _rows(frame)
        held = frame.persist()
        try:
            if check is not None:
                found = _rows(held.mapInArrow(lambda batches: entries_in(merged_outputs(batches)), REPORT))
                check([log_entry(row) for row in sorted(found, key=lambda row: row["ordinal"])])
            return _rows(held.mapInArrow(self._writing(), REPORT))
        finally:
            held.unpersist()

    def _writing(self) -> Pass:
        job, (topic, tasks), tails = self._job(), self.place, dict(self.sinks)

        def write(batches: Batches) -> Batches:
            context: Any = TaskContext.get()
            slot, told = context.partitionId(), json.loads(context.getLocalProperty(_TOLD))
            layout = Layout(told["slots"], told["partitions"])
            own = replace(job, batch=told["batch"], layout=layout, owners=dict(told["owners"]))
            rows = (with_partitions(rows, layout, tails, slot) for rows in merged_outputs(batches))
            yield from Share(own, slot, place=(topic, slot % tasks)).write(rows)

        return write

    def _job(self) -> Job:
        """What all batches have in common."""
        is_transactional = self.delivery is Delivery.EXACTLY_ONCE
        return Job(self.config, self.group, 0, self.run, Layout(0, {}), is_transactional, {})


def writes_alone(graph: Graph, tasks: int, sinks: Mapping[str, int], *, pages_by_task: bool) -> bool:
    """Whether a partition of a sink gets what one task of the last level makes, and no other.

    Then its records stay in order, although each task writes its share of a batch as a whole. Else a reader would see
    the time of a batch pass once for each task that writes a partition, and windows would drop records as late.

    Args:
        graph: the query.
        tasks: the number of its tasks.
        sinks: the number of partitions of each topic that it writes.
        pages_by_task: as in `kestrel_sql.spark.checkpoint.metadata`.
    """
    if not graph.levels or not _is_whole(graph, pages_by_task=pages_by_task):
        return False
    last = {each.output.number: each.operator.scope for each in graph.levels[-1]}
    for sink in graph.sinks:
        scope = last.get(sink.relation.number)
        if scope is Scope.QUERY:
            # All of it is one task.
            continue
        count = sinks.get(sink.topic)
        if scope is None or sink.relation.rekeyed or count is None or count % tasks:
            return False
    return True


def has_slot_per_task(graph: Graph, tasks: int, slots: int, *, pages_by_task: bool) -> bool:
    """Whether all outputs of a task are made in one slot, whose number is that of the task modulo their number.

    `pages_by_task` is as in `kestrel_sql.spark.checkpoint.metadata`.
    """
    return _is_whole(graph, pages_by_task=pages_by_task) and (tasks == 1 or separates_tasks(slots))


def _is_whole(graph: Graph, *, pages_by_task: bool) -> bool:
    """Whether the last level has all that a task makes in one page, or in pages that are together."""
    return pages_by_task or all(each.operator.scope is not Scope.KEY for each in graph.levels[-1])


def _rows(report: DataFrame) -> list[ReportRow]:
    return list(report.toArrow().to_pylist())
