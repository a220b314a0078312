"""The state of one query, read from its checkpoint without Spark: pages, rows by key, stream times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.key_bytes import key_decoder
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import CheckpointError, EngineError, QueryError, SerdeError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.operators.joins.foreign_key import ForeignKeyJoin
from kestrel_sql.operators.operator import Key, Operator, Scope, State, StateEntry
from kestrel_sql.operators.state_counts import stream_time
from kestrel_sql.plan.codec.plan_file import decode_statement
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.spark.checkpoint.batch_log import batch_log_flaws
from kestrel_sql.spark.checkpoint.metadata import CheckpointMetadata, read_metadata
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath
from kestrel_sql.spark.state.checkpoint_reader import committed
from kestrel_sql.spark.state.hashing import can_hash, hash_row
from kestrel_sql.spark.state.level import load_page
from kestrel_sql.spark.state.stored_rows import StoredPage
from kestrel_sql.spark.state_tools.store_files import partition_folders, read_pages
from kestrel_sql.types.schema import Column

_BUILDS = ((False, False), (True, False), (True, True))
"""How a run may have built a query: `queryable` and `replaceable` of `QueryRun`."""


class StoredStep(msgspec.Struct, frozen=True):
    """A stateful step of a query."""

    level: int
    stateful: Stateful
    query_id: str

    @property
    def operator(self) -> Operator:
        """Its operator."""
        return self.stateful.operator

    @property
    def relation(self) -> str:
        """The member of a page with its state."""
        return str(self.stateful.output.number)

    @property
    def name(self) -> str:
        """Its name in the plan, without that of the query."""
        return self.stateful.logger.removeprefix(f"processing.{self.query_id}.")

    @property
    def title(self) -> str:
        """Its name and its operator, for people."""
        return f"{self.name} ({type(self.operator).__name__})"

    def key_columns(self, side: int | None) -> Sequence[Column]:
        """The key columns of an entry of this side."""
        return (self.stateful.output if side is None else self.stateful.inputs[side]).schema.key

    def value_columns(self, side: int | None) -> Sequence[Column]:
        """The value columns of an entry of this side."""
        return (self.stateful.output if side is None else self.stateful.inputs[side]).schema.value

    def entries(self, state: State) -> Iterator[StateEntry]:
        """Yield the rows of the step in the state of a page."""
        windowed = tuple(handle.window is not None for handle in self.stateful.inputs)
        return self.operator.entries(state.get(self.relation, {}), windowed)

    def keys(self) -> Callable[[int | None, bytes], Key]:
        """Return the function that restores the key of an entry from its side and bytes.

        A key that cannot be read is its bytes.
        """
        own = key_decoder(self.operator.key_bytes)
        foreign = key_decoder(self.operator.foreign_key_bytes) if isinstance(self.operator, ForeignKeyJoin) else own

        def restored(side: int | None, key: bytes) -> Key:
            try:
                return (foreign if side == 1 else own)(key)
            except (SerdeError, QueryError):
                return (key,)

        return restored


class StoredQuery(msgspec.Struct, frozen=True):
    """The state of one query as of its last committed batch.

    Attributes:
        name: the name of the query in its application, or that of the folder.
        id: the query id, which names the folder.
        folder: its checkpoint.
        metadata: what the run that wrote it stored beside it.
        pipeline: the pipeline of its plan.
        batches: the number of committed batches.
    """

    name: str
    id: str
    folder: CheckpointPath
    metadata: CheckpointMetadata
    pipeline: Pipeline
    batches: int

    @property
    def steps(self) -> list[StoredStep]:
        """The stateful steps, by level."""
        group = self.pipeline.graph
        return [
            StoredStep(at, each, group.plans[each.query].query_id)
            for at, level in enumerate(group.levels, 1)
            for each in level
        ]

    @property
    def levels(self) -> int:
        """The number of stateful levels."""
        return len(self.pipeline.graph.levels)

    def partitions(self, level: int) -> list[CheckpointPath]:
        """Return the folders of the partitions of a level."""
        # Spark counts from the end of the query.
        return partition_folders(self.folder / "state" / str(self.levels - level))

    def pages(self, level: int) -> Iterator[StoredPage]:
        """Yield the pages of a level.

        Raises:
            CheckpointError: a file is missing or damaged; names it.
        """
        for partition in self.partitions(level) if self.batches else ():
            yield from read_pages(partition, self.batches)

    def states(self, level: int) -> Iterator[tuple[StoredPage, State]]:
        """Yield the pages of a level with the state of its operators.

        Raises:
            CheckpointError: a file or a page is missing or damaged; names it.
        """
        fingerprint = self.pipeline.level(level).fingerprint()
        for page in self.pages(level):
            try:
                yield page, load_page(page.blob, fingerprint)
            except QueryError as error:
                raise CheckpointError(
                    f"{self.folder}: page {page.page} of task {page.task} of level {level}: {error.message}",
                    hint=error.hint or "restore the checkpoint from a copy",
                ) from error

    def rows(self, step: StoredStep, key: Key | None = None) -> Iterator[tuple[StoredPage, StateEntry]]:
        """Yield the rows of a step, or those of the pages that may have a key.

        Raises:
            CheckpointError: a file or a page is missing or damaged; names it.
        """
        wanted = None if key is None else self._page_of(step, key)
        for page, state in self.states(step.level):
            if wanted is None or self.metadata.number(page.task, page.page) == wanted:
                for entry in step.entries(state):
                    yield page, entry

    def _page_of(self, step: StoredStep, key: Key) -> int | None:
        """The number of the page of a key; None if it is unknown."""
        columns = step.key_columns(0)
        if step.operator.scope is not Scope.KEY or not can_hash(columns):
            return None
        return hash_row(key, columns) % self.metadata.pages

    def times(self, step: StoredStep) -> dict[int, int]:
        """Return the stream time (ms) of each task, for a step that keeps one."""
        found = ((page.task, stream_time(state.get(step.relation, {}))) for page, state in self.states(step.level))
        return {task: time for task, time in found if time is not None}


def open_stored(
    folder: CheckpointPath,
    functions: Registry,
    *,
    name: str = "",
    query_id: str = "",
    plans: Sequence[QueryPlan] = (),
    settings: Mapping[str, str] | None = None,
) -> StoredQuery:
    """Open the checkpoint of one query.

    Args:
        folder: the checkpoint.
        functions: the functions of its expressions.
        name: as in `StoredQuery`; the name of the folder by default.
        query_id: as in `StoredQuery`; the name of the folder by default.
        plans: the plans of its queries; those of its metadata by default.
        settings: the settings with which they were planned.

    Raises:
        CheckpointError: the checkpoint is damaged, has no metadata, or another release wrote it.
    """
    flaw = next(batch_log_flaws(folder), None)
    if flaw is not None:
        raise CheckpointError(f"the checkpoint {folder} is damaged: {flaw}", hint="restore it from a copy")
    metadata = read_metadata(folder)
    if metadata is None:
        raise CheckpointError(
            f"the checkpoint {folder} has no kestrel.json, which says what its state is",
            hint="restore the file, or start with a new checkpoint",
        )
    pipeline = _pipeline(folder, metadata, functions, plans or _plans(folder, metadata), settings or {})
    return StoredQuery(name or folder.name, query_id or folder.name, folder, metadata, pipeline, committed(folder))


def _plans(folder: CheckpointPath, metadata: CheckpointMetadata) -> list[QueryPlan]:
    found = [decode_statement(plan).query_plan for plan in metadata.plans]
    if None in found:
        raise CheckpointError(f"{folder / 'kestrel.json'} is damaged: a plan has no query")
    return [plan for plan in found if plan is not None]


def _pipeline(
    folder: CheckpointPath,
    metadata: CheckpointMetadata,
    functions: Registry,
    plans: Sequence[QueryPlan],
    settings: Mapping[str, str],
) -> Pipeline:
    """The pipeline whose operators are those of the checkpoint."""
    for queryable, replaceable in _BUILDS:
        runs = [QueryRun(plan=plan, settings=settings, queryable=queryable, replaceable=replaceable) for plan in plans]
        try:
            pipeline = build_pipeline(runs, functions)
        except EngineError as error:
            raise CheckpointError(
                f"the plan in the checkpoint {folder} cannot be built: {error.message}",
                hint=error.hint or "--functions FILE gives it functions of your own",
            ) from error
        operators = [pipeline.level(number).fingerprint() for number in range(1, pipeline.depth)]
        if operators == [list(level) for level in metadata.operators]:
            return pipeline
    raise CheckpointError(
        f"the operators of the checkpoint {folder} are not those that this release builds from its plan",
        hint=f"use Kestrel {metadata.release}, which wrote it",
    )
