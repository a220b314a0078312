"""Take checkpoints in the middle of stored cases, and resume from those of earlier versions."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, Outcome, Result, Status
from kestrel_qtt.drivers.records.outcome import outcome_of
from kestrel_qtt.drivers.records.prepare import prepare
from kestrel_qtt.drivers.records.run import CaseRun
from kestrel_qtt.drivers.warm.session import open_case_session
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.plans.checkpoints import Frozen, pack, second_half, unpack
from kestrel_qtt.plans.store import PlanStoreError
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import CheckpointError
from kestrel_sql.plan.codec.plan_file import engine_version
from kestrel_sql.session.session import PersistentQuery
from kestrel_sql.spark.checkpoint.batch_log import unfinished_batch
from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.in_memory.resumable import ResumableQuery, ResumableRunner
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.topics.records import Record


class Checkpoints:
    """Takes and resumes checkpoints of the only query of a stored case, on one Spark session."""

    def __init__(self) -> None:
        self._runner = ResumableRunner(open_case_session())
        self._folder = Path(tempfile.mkdtemp(prefix="kestrel-checkpoints-"))

    def close(self) -> None:
        """Remove the files on disk."""
        self._runner.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def freeze(self, case: Case, inputs: int | None = None) -> Frozen:
        """Run the first `inputs` records of a case (by default half of them) and take the checkpoint.

        Raises:
            PlanStoreError: the case fails or has no state, or its later records do not depend on the state.
        """
        run, query, feed = _prepared(case)
        after = len(feed) // 2 if inputs is None else inputs
        if not 0 < after < len(feed):
            raise PlanStoreError(f"{case.id}: the checkpoint would be after {after} of {len(feed)} inputs")
        pipeline = _pipeline(run, query)
        operators = operator_names(pipeline)
        if not operators:
            raise PlanStoreError(f"{case.id}: the query keeps no state")
        resumable = self._runner.open(pipeline)
        output = resumable.advance(feed[:after])
        frozen = Frozen(
            engine_version(), after, Counter(r.topic for r in output.records), operators, pack(resumable.checkpoint)
        )
        resumed = self.resume(case, frozen)
        if resumed.status is not Status.PASSED:
            raise PlanStoreError(f"{case.id}: the second half does not match:\n{resumed.reason}")
        if judge(second_half(case, frozen), self._forgetful(case, feed[after:])).status is Status.PASSED:
            raise PlanStoreError(f"{case.id}: what comes after {after} inputs does not depend on the state")
        return frozen

    def resume(self, case: Case, frozen: Frozen) -> Result:
        """Resume from a checkpoint with the other inputs, and compare with the other outputs."""

        def after(pipeline: Pipeline, feed: Sequence[Record]) -> Output:
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            unpack(frozen, folder)
            resumable = resume_copy(self._runner, pipeline, folder, feed[: frozen.inputs])
            return resumable.advance(feed[frozen.inputs :])

        return resumed(case, frozen, after)

    def _forgetful(self, case: Case, rest: Sequence[Record]) -> Outcome:
        """Return the outcome of the other inputs without the state."""
        run, query, _ = _prepared(case)
        pipeline = _pipeline(run, query)
        run.collect(self._runner.open(pipeline).advance(rest))
        return outcome_of(run)


def resumed(case: Case, frozen: Frozen, after: Callable[[Pipeline, Sequence[Record]], Output]) -> Result:
    """Compare the other outputs of a case with what `after` returns, which gets the query and all its inputs."""
    run, query, feed = _prepared(case)
    run.collect(after(_pipeline(run, query), feed))
    return judge(second_half(case, frozen), outcome_of(run))


def _prepared(case: Case) -> tuple[CaseRun, PersistentQuery, list[Record]]:
    run = prepare(replace(case, serdes=None))
    if run.outcome is not None:
        raise PlanStoreError(f"{case.id}: cannot be run: {run.outcome}")
    if len(run.pending) != 1:
        raise PlanStoreError(f"{case.id}: a checkpoint is taken of a case with one query, not {len(run.pending)}")
    return run, run.pending[0], run.feed_of(run.pending[0])


def _pipeline(run: CaseRun, query: PersistentQuery) -> Pipeline:
    return build_pipeline([run.query_run(query)], run.session.functions)


def operator_names(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the names of the operators of a pipeline, level by level."""
    return tuple(type(stateful.operator).__name__ for level in pipeline.graph.levels for stateful in level)


def resume_copy(runner: ResumableRunner, pipeline: Pipeline, checkpoint: Path, fed: Sequence[Record]) -> ResumableQuery:
    """Copy the checkpoint of a query that processed `fed` in one `advance`, and return a query with its state.

    Raises:
        CheckpointError: another plan wrote it, it cannot be read, or its last batch was begun and not finished.
    """
    batch = unfinished_batch(checkpoint)
    if batch is not None:
        # A topic in memory would hold the records of the batch twice.
        raise CheckpointError(f"the checkpoint {checkpoint} cannot be resumed: its batch {batch} was not finished")
    query = ResumableQuery(runner, pipeline)
    shutil.copytree(checkpoint, query.checkpoint)
    _move_paths(query.checkpoint)
    check_start(lambda: runner.spark, pipeline, query.checkpoint)
    query.skip(fed)
    return query


def _move_paths(checkpoint: Path) -> None:
    """Point the metadata of a copied checkpoint to its own files. Spark writes full paths of schemas into it."""
    for file in checkpoint.glob("state/*/_metadata/v2/[!.]*"):
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise CheckpointError(
                f"the checkpoint cannot be resumed: {file.relative_to(checkpoint)} is not text"
            ) from error
        own = re.sub(r'"file:[^"]*?/state/(?=\d+/_stateSchema/)', f'"file:{checkpoint}/state/', text)
        file.write_text(own, encoding="utf-8")
        # The checksum belongs to the old text.
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
