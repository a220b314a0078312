"""Queries that share a source: they read one topic, keep no state, and run as one query of Spark (docs/adr/0044).

They have a checkpoint together. One that goes its own way takes the offsets of the last batch with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace
from pyspark.sql import DataFrame

from kestrel_sql.dataflow.graph import SinkWrite
from kestrel_sql.errors import StatementError
from kestrel_sql.kafka.run.manifest import CheckpointFolder, StoredQuery
from kestrel_sql.kafka.run.prepare_query import Prepared
from kestrel_sql.kafka.source.reading import Reading
from kestrel_sql.spark.checkpoint.batch_log import unfinished_batch
from kestrel_sql.spark.checkpoint.metadata import CheckpointMetadata, write_metadata
from kestrel_sql.spark.io.arrow_passes import Batches, Pass, Passes, chained
from kestrel_sql.spark.io.blobs import larger
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.state.row_counts import RowCounts

_NAMED = 3


class SharedPipeline(msgspec.Struct, frozen=True):
    """The pipelines of queries that share a source; all of them have `passes`."""

    pipelines: Sequence[Pipeline]

    @property
    def query_ids(self) -> Sequence[str]:
        """The ids of its queries."""
        return [*chain.from_iterable(each.query_ids for each in self.pipelines)]

    @property
    def sinks(self) -> Sequence[SinkWrite]:
        """The topics that it writes."""
        return [*chain.from_iterable(each.sinks for each in self.pipelines)]

    @property
    def passes(self) -> tuple[Pass, ...]:
        """All of them as a pass over Arrow batches."""
        return (_branched([chained(each.passes or ()) for each in self.pipelines]),)

    def frame(
        self,
        records: Passes,
        pages: int,
        partitions: Mapping[str, int],
        *,
        end: tuple[Pass, str],
        has_task_pages: bool,
        pages_by_task: bool,
        counts: RowCounts,
    ) -> DataFrame:
        """Pass each batch of records through all pipelines; the arguments are those of `Pipeline.frame`."""
        function, schema = end
        return records.through(larger).through(chained(self.passes)).through(function).frame(schema)


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """What one query of Spark runs: a query, or several that share a source; `stored` has its checkpoint."""

    stored: StoredQuery
    pipeline: Pipeline | SharedPipeline

    @property
    def title(self) -> str:
        """Its id, with the first of the queries that share a source."""
        ids = self.pipeline.query_ids
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        return f"{self.stored.id} ({', '.join(ids[:_NAMED])}{more})" if self.stored.shared else self.stored.id


def shared(prepared: Sequence[Prepared], run: int) -> list[Prepared]:
    """Let new queries share a source where they can; `run` is the number of the start."""
    alike: dict[object, list[Prepared]] = defaultdict(list)
    for query in prepared:
        if query.is_new and can_share(query):
            stored = query.stored
            alike[stored.reading, tuple(stored.sources.items()), tuple(sorted(stored.start.items()))].append(query)
    names: dict[str, str] = {}
    for number, queries in enumerate((each for each in alike.values() if len(each) > 1), start=1):
        (topic,) = queries[0].stored.sources
        # Numbers come first: a topic may end with some, and then its name could be that of another start.
        names |= {query.stored.name: f"SHARED_{run}_{number}_{topic}" for query in queries}
    return [
        replace(each, stored=replace(each.stored, shared=names.get(each.stored.name, each.stored.shared)))
        for each in prepared
    ]


def can_share(query: Prepared) -> bool:
    """Whether a query keeps no state and reads one topic that it does not write."""
    topics = {sink.topic for sink in query.pipeline.sinks}
    return query.pipeline.passes is not None and not topics & {*query.stored.sources}


def parted(stored: StoredQuery, folder: CheckpointFolder) -> StoredQuery:
    """Return a query that goes on without those that it shares a source with, from their last batch.

    Raises:
        StatementError: they have begun a batch that is not finished; only all of them can finish it.
    """
    if not stored.shared:
        return stored
    if unfinished_batch(folder.folder_of(stored)) is not None:
        raise StatementError(
            f"{stored.id} shares its source with other queries, which have begun a batch; it may leave them only when"
            " the batch is finished",
            hint="start once more as before, with --share-sources and all queries, and stop with Ctrl-C",
        )
    return replace(stored, start=folder.next_offsets(stored) or stored.start, shared="")


def units(prepared: Sequence[Prepared]) -> Iterator[Unit]:
    """What to run, those that share a source in place of the first of them."""
    together: dict[str, list[Prepared]] = defaultdict(list)
    for query in prepared:
        together[query.stored.shared or query.stored.id].append(query)
    for name, queries in together.items():
        first = queries[0]
        if not first.stored.shared:
            yield Unit(stored=first.stored, pipeline=first.pipeline)
            continue
        # New ones are alike. Of older ones some may be direct by now, which have the log of the plain ones.
        readings = {query.stored.reading for query in queries}
        reading = readings.pop() if len(readings) == 1 else Reading.PLAIN
        stored = replace(first.stored, name=name, id=name, statement="", plan={}, settings={}, reading=reading)
        yield Unit(stored=stored, pipeline=SharedPipeline([query.pipeline for query in queries]))


def write_shared(unit: Unit, folder: CheckpointFolder) -> None:
    """Write into the checkpoint of queries that share a source whose it is, for those who look into it."""
    stored = unit.stored
    pipelines = unit.pipeline.pipelines if isinstance(unit.pipeline, SharedPipeline) else ()
    every = [CheckpointMetadata.of(each, stored.pages, each.tasks(stored.partitions)) for each in pipelines]
    plans = [plan for each in every for plan in each.plans]
    tasks = [number for each in every for number in each.tasks]
    write_metadata(folder.folder_of(stored), replace(every[0], plans=plans, tasks=tasks))


def _branched(branches: Sequence[Pass]) -> Pass:
    def run(batches: Batches) -> Batches:
        # Each branch begins once for a task, and sees all of its batches: a batch of Spark has few records of each.
        held = [*batches]
        for branch in branches:
            yield from branch(iter(held))

    return run
