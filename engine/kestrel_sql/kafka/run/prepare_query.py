"""Prepares a query to start.

Checks its topics against broker and checkpoint, builds its pipeline, and fixes its first offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec.structs import replace
from pyspark.sql import SparkSession

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import QueryError, StatementError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.kafka.client.acls import check_acls
from kestrel_sql.kafka.client.offsets import BrokerOffsets, Topic
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.level_batches import writes_alone
from kestrel_sql.kafka.run.manifest import CheckpointFolder, StoredQuery
from kestrel_sql.kafka.run.resume import NamedQuery, document_of, operators, plan_of, relevant, resumed
from kestrel_sql.kafka.run.topic_changes import damaged
from kestrel_sql.kafka.source.placement import is_placed_by_key
from kestrel_sql.kafka.source.reading import INGESTED, REKEYED, Reading, reading_of
from kestrel_sql.plan.copartitioning import check_partitions
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session
from kestrel_sql.spark.checkpoint.batch_log import unfinished_batch
from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.state.row_counts import PageId


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A query that can be started: its entry in the manifest, and its pipeline."""

    named: NamedQuery
    stored: StoredQuery
    pipeline: Pipeline
    is_new: bool
    replaces: StoredQuery | None = None
    """The query in the checkpoint whose state it does not take."""

    def check(self, folder: CheckpointFolder, open_spark: Callable[[], SparkSession] | None) -> Mapping[PageId, int]:
        """Check its checkpoint, the state only with Spark, and return the rows in each page of the state."""
        stored = self.stored
        return check_start(
            open_spark,
            self.pipeline,
            folder.folder_of(stored),
            pages=stored.pages,
            has_task_pages=stored.has_task_pages,
            pages_by_task=stored.pages_by_task,
            tasks=self.pipeline.tasks(stored.partitions),
            replaced=self.named.replaces,
        )


class Preparation(msgspec.Struct, kw_only=True):
    """Prepares the queries of one start."""

    session: Session
    folder: CheckpointFolder
    offsets: BrokerOffsets
    from_start: bool
    """Whether new queries read their topics from the earliest offset."""
    fresh_topics: Collection[str]
    """Topics that only new queries of this start write; a new query reads them from the earliest offset."""
    slots: int | None = None
    """The number of Spark's partitions of state, if it is known: as many tasks keep all cores busy."""
    _placed: dict[str, bool] = {}
    """Whether the records of a topic are in the partitions of their keys."""
    _written: dict[str, int] = {}
    """The numbers of partitions of topics that queries write."""

    def new(self, named: NamedQuery) -> Prepared:
        """Prepare a query that is not in the checkpoint.

        Raises:
            StatementError: a topic does not exist, or inputs of a join have different numbers of partitions.
            QueryError: the broker does not answer, or an ACL is missing.
        """
        query = named.query
        topics, pipeline = self._built(query.plan, query.config)
        self._check_acls(query.id, topics, pipeline)
        positions = [position for topic in topics.values() for position in topic.positions]
        stored = StoredQuery(
            name=named.name,
            id=query.id,
            statement=query.statement_text,
            plan=document_of(query, query.plan),
            settings=relevant(query.config, query.plan),
            reading=self._reading(query.plan, topics, pipeline),
            sources=topics,
            start=self._start(query.config, positions),
            pages=pipeline.new_pages(_counts(topics)),
            has_task_pages=True,
            pages_by_task=self._has_enough_tasks(pipeline, topics),
        )
        return self._prepared(named, stored, pipeline, is_new=True)

    def anew(self, named: NamedQuery, stored: StoredQuery, run: int) -> Prepared:
        """Prepare a query to begin with empty state over the whole history of its topics, under an id of its own.

        Raises:
            QueryError: records that it has read are gone.
            StatementError: as in `new`.
        """
        # What has been written under the old id counts as written.
        plan = replace(named.query.plan, query_id=f"{named.query.id}_{run}")
        found = replace(self, from_start=True).new(replace(named, query=replace(named.query, plan=plan)))
        lost = [
            f"partition {partition} of the topic {topic} begins at offset {first}"
            for (topic, partition), first in found.stored.start.items()
            if first > stored.start.get((topic, partition), first)
        ]
        if lost:
            raise QueryError(
                f"{stored.id} cannot begin anew: records that it has read are gone; {'; '.join(lost)}", hint=_NEW_NAME
            )
        return replace(found, replaces=stored)

    def known(self, named: NamedQuery, stored: StoredQuery) -> Prepared:
        """Prepare a query to resume from its checkpoint.

        Raises:
            StatementError: the query has changed so that its state does not match.
            QueryError: a topic has changed or lost records; names topic and partition.
        """
        plan = resumed(named, stored)
        flaw = damaged(stored, self.folder, self.offsets)
        if flaw is not None:
            raise flaw
        topics, pipeline = self._built(plan, named.query.config)
        self._check_acls(stored.id, topics, pipeline)
        if _names(topics) != _names(stored.sources):
            raise StatementError(f"the query {stored.id} reads other topics than its checkpoint", hint=_NEW_NAME)
        before = self._built(plan_of(stored), Config.of(stored.settings))[1]
        if operators(before) != operators(pipeline):
            raise StatementError(
                f"the operators of the query {stored.id} are not those of its checkpoint", hint=_NEW_NAME
            )
        renewed = replace(
            stored,
            reading=self._resumed_reading(stored, self._reading(plan, topics, pipeline)),
            statement=named.query.statement_text,
            plan=document_of(named.query, plan),
            settings=relevant(named.query.config, plan),
        )
        return self._prepared(named, renewed, pipeline, is_new=False)

    def _prepared(self, named: NamedQuery, stored: StoredQuery, pipeline: Pipeline, *, is_new: bool) -> Prepared:
        """A query. Its last level writes if it can; a batch is finished in the way in which it was begun."""
        if is_new or not stored.level_writes or not self._has_begun(stored):
            stored = replace(stored, level_writes=self._level_writes(named.query.plan, stored, pipeline))
        return Prepared(named=named, stored=stored, pipeline=pipeline, is_new=is_new)

    def _level_writes(self, plan: QueryPlan, stored: StoredQuery, pipeline: Pipeline) -> bool:
        if not stored.has_task_pages or _has_own_keys(plan):
            return False
        tasks = max(pipeline.tasks(stored.partitions))
        if not writes_alone(pipeline.graph, tasks, self._sinks(pipeline), pages_by_task=stored.pages_by_task):
            return False
        # Behind a new key, a task has the keys of its partition.
        is_rekeyed = len(stored.partitions) == 1 and any(
            isinstance(step, REKEYED) for step in plan.physical_plan.steps()
        )
        return is_rekeyed or all(self._is_placed(topic, count) for topic, count in stored.partitions.items())

    def _has_enough_tasks(self, pipeline: Pipeline, topics: Mapping[str, Topic]) -> bool:
        """Whether a query keeps state, and all cores are busy although each task is the work of one of them."""
        return pipeline.depth > 1 and max(pipeline.tasks(_counts(topics))) >= max(self.slots or _MANY, 2)

    def _built(self, plan: QueryPlan, config: Config) -> tuple[dict[str, Topic], Pipeline]:
        functions: Registry = self.session.functions
        pipeline = build_pipeline([QueryRun(plan=plan, settings=config, serde=self.session.serde())], functions)
        wanted = _in_order(pipeline)
        found = self.offsets.topics(wanted)
        missing = [topic for topic in wanted if topic not in found]
        if missing:
            raise StatementError(
                f"the topic {missing[0]}, which {plan.query_id} reads, does not exist",
                hint="check KAFKA_TOPIC in the WITH clause; case matters",
            )
        topics = {topic: found[topic] for topic in wanted}
        check_partitions(plan.physical_plan, _counts(topics))
        return topics, pipeline

    def _reading(self, plan: QueryPlan, topics: Mapping[str, Topic], pipeline: Pipeline) -> Reading:
        counts = _counts(topics)
        keeps = self._keeps_partitions(counts, pipeline)
        return reading_of(plan.physical_plan, list(topics), counts, len(pipeline.graph.levels), keeps_partitions=keeps)

    def _resumed_reading(self, stored: StoredQuery, own: Reading) -> Reading:
        """How a query goes on: plain and direct reading have one log of batches, merged reading has another.

        A batch that was begun is finished in the same way.
        """
        if stored.reading == Reading.MERGED:
            return Reading.MERGED
        if own is Reading.DIRECT or (stored.reading == Reading.DIRECT and self._has_begun(stored)):
            return Reading.DIRECT
        return Reading.PLAIN

    def _has_begun(self, stored: StoredQuery) -> bool:
        """Whether a query has begun a batch that is not finished."""
        return unfinished_batch(self.folder.folder_of(stored)) is not None

    def _sinks(self, pipeline: Pipeline) -> dict[str, int]:
        """The numbers of partitions of the topics that a query writes."""
        names = {sink.topic for sink in pipeline.sinks}
        if missing := names - self._written.keys():
            self._written |= _counts(self.offsets.topics(missing))
        return {name: self._written[name] for name in names & self._written.keys()}

    def _keeps_partitions(self, counts: Mapping[str, int], pipeline: Pipeline) -> bool:
        """Whether a partition of a sink gets the records of one partition of each source, as far as keys stay."""
        most = max(counts.values(), default=1)
        if any(count % most for count in self._sinks(pipeline).values()):
            return False
        return all(self._is_placed(topic, count) for topic, count in counts.items())

    def _is_placed(self, topic: str, partitions: int) -> bool:
        if topic in self.fresh_topics:
            return True
        if topic not in self._placed:
            self._placed[topic] = is_placed_by_key(self.offsets, topic, partitions)
        return self._placed[topic]

    def _check_acls(self, query_id: str, topics: Mapping[str, Topic], pipeline: Pipeline) -> None:
        check_acls(self.offsets.config, query_id, topics, {sink.topic for sink in pipeline.graph.sinks})

    def _start(self, config: Mapping[str, str], positions: list[Position]) -> dict[Position, int]:
        earliest = self.offsets.first(positions)
        if self.from_start or config.get("auto.offset.reset") == "earliest":
            return earliest
        latest = self.offsets.ends(positions)
        return {p: earliest[p] if p[0] in self.fresh_topics else latest[p] for p in positions}


_MANY = 1 << 30

_NEW_NAME = "choose another name for its stream or table, or a new checkpoint"


def _in_order(pipeline: Pipeline) -> list[str]:
    """The topics of a query, those of tables first.

    With equal timestamps the records of tables come first, so that joins find them.
    """
    sources = sorted(pipeline.graph.sources, key=lambda source: not source.relation.is_table)
    return list(dict.fromkeys(source.topic for source in sources))


def _counts(topics: Mapping[str, Topic]) -> dict[str, int]:
    return {name: topic.partitions for name, topic in topics.items()}


def _has_own_keys(plan: QueryPlan) -> bool:
    return any(isinstance(step, INGESTED) for step in plan.physical_plan.steps())


def _names(topics: Mapping[str, Topic]) -> list[str]:
    return sorted(topics)
