"""The driver over our engine; `spark_topics.py` does the part about topics and their schemas.

Cases are planned one by one; then, round by round, the next query of every case is taken, and the queries of a round run fused: many
queries in one Spark query. The guilty query of a group that fails is found by halving the group.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.case_records import actual_records, input_records
from kestrel_qtt.drivers.driver import PlanningError, RunOptions
from kestrel_qtt.drivers.functions import functions_of
from kestrel_qtt.drivers.stored_plan import execute_stored, last_serdes
from kestrel_qtt.drivers.topics import register_topics, source_state, topic_states
from kestrel_qtt.ksqldb.rewritten_query import rewritten_text
from kestrel_qtt.plans.store import RESTORED
from kestrel_sql.errors import EngineError, SqlSyntaxError
from kestrel_sql.plan.codec.plan_file import WRITTEN_BY, PlanFile, dump_plan, engine_version
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.inserts import ResolvedInsert
from kestrel_sql.session.insert_values import Constants, insert_record
from kestrel_sql.session.session import PersistentQuery, Session, properties_config
from kestrel_sql.spark.compile.constants import evaluate_constants
from kestrel_sql.spark.in_memory.runner import Cut, MemoryRunner, Output
from kestrel_sql.spark.pipeline.pipeline import Pipeline, QueryRun, build_pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.stages.log_entries import FATAL
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.statements import InsertValues
from kestrel_sql.topics.records import LogEntry, Record

BASE_PROPERTIES: Mapping[str, object] = {
    "ksql.service.id": "some.ksql.service.id",
    "auto.offset.reset": "earliest",
    "cache.max.bytes.buffering": 0,
}
"""The fixed configuration of a test engine (rules Q7.1)."""

_KINDS = ("deserialization", "processing", "production", "serialization", "thread")


@dataclass(slots=True)
class Run:
    """A planned case on its way through the rounds."""

    case: model.Case
    session: Session
    pending: list[PersistentQuery]
    topics: dict[str, list[Record]]
    inputs: list[Record]
    log: list[LogEntry] = field(default_factory=list)
    outcome: model.Outcome | None = None
    seconds: float = 0.0


Member = tuple[Run, PersistentQuery]
"""A query of a fused group, and its case."""


class SparkDriver:
    """Runs cases on one Spark session over memory streams."""

    def __init__(self) -> None:
        self._runner: MemoryRunner | None = None
        self._opening = Lock()

    def close(self) -> None:
        """Remove what the runner keeps on disk; Spark itself ends with the process."""
        if self._runner is not None:
            self._runner.close()

    def run(
        self, cases: Sequence[model.Case], options: RunOptions
    ) -> Iterator[tuple[model.Case, model.Outcome, float]]:
        """Run the cases; each is yielded once with its outcome and its share of the seconds."""
        for start in range(0, len(cases), options.group_size):
            yield from self._run_group(
                cases[start : start + options.group_size], Cut.parse(options.cut, options.restart)
            )

    def explain(self, case: model.Case) -> str:
        """The plans of a case as JSON, each followed by the Spark SQL that it becomes."""
        run = prepare(case)
        if run.outcome is not None:
            return str(run.outcome)
        parts = [plan_text(case)]
        for query in run.pending:
            pipeline = build_pipeline([query_run(run, query)], run.session.functions)
            parts += [f"-- {query.id}, stage {level}\n{text}" for level, text in enumerate(pipeline.texts)]
        return "\n\n".join(parts)

    def plan_documents(self, case: model.Case) -> str:
        """The plan of a case as it is stored."""
        return plan_text(case)

    def _run_group(self, cases: Sequence[model.Case], cut: Cut) -> Iterator[tuple[model.Case, model.Outcome, float]]:
        started = time.perf_counter()
        runs = [_guarded_prepare(case) for case in cases]
        try:
            self._start(runs)
            share = (time.perf_counter() - started) / max(len(runs), 1)
            while active := [run for run in runs if run.outcome is None and run.pending]:
                self._round(active, cut)
            for run in runs:
                outcome = run.outcome if run.outcome is not None else produced(run)
                yield run.case, outcome, run.seconds + share
        finally:
            self._end(runs)

    def _start(self, runs: Sequence[Run]) -> None:
        """Make ready what the prepared cases of a group need; nothing in memory."""

    def _end(self, runs: Sequence[Run]) -> None:
        """Take away what a group needed."""

    def _round(self, runs: Sequence[Run], cut: Cut) -> None:
        """Run the next query of every case, those of equal depth and equal functions together."""
        fused: dict[tuple[int, int], list[Member]] = {}
        for run in runs:
            query = run.pending.pop(0)
            try:
                pipeline = build_pipeline([query_run(run, query)], run.session.functions)
                pipeline.tasks(declared_partitions(run.case))
                depth = pipeline.depth
            except EngineError as error:
                run.outcome = model.Rejected(message=str(error), error_code=error.code)
                continue
            except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
                run.outcome = model.Crashed(message=f"{type(error).__name__}: {_short(error)}")
                continue
            fused.setdefault((depth, id(run.session.functions)), []).append((run, query))
        for members in fused.values():
            self._fused(members, cut)

    def _fused(self, members: Sequence[Member], cut: Cut) -> None:
        """Run the queries as one; halve the group as long as it fails."""
        started = time.perf_counter()
        try:
            pipeline = build_pipeline(
                [query_run(run, query) for run, query in members], members[0][0].session.functions
            )
            outputs = self._outputs(pipeline, members, cut)
        except Exception as error:  # noqa: BLE001 - whatever Spark throws concerns one query of the group
            if len(members) == 1:
                members[0][0].outcome = model.Crashed(message=_short(error))
                return
            half = len(members) // 2
            self._fused(members[:half], cut)
            self._fused(members[half:], cut)
            return
        share = (time.perf_counter() - started) / len(members)
        for (run, query), output in zip(members, outputs, strict=True):
            run.seconds += share
            self._take(run, query, pipeline, output)

    def _outputs(self, pipeline: Pipeline, members: Sequence[Member], cut: Cut) -> list[Output]:
        """What each of the fused queries gives."""
        feeds = [feed_of(run, query) for run, query in members]
        return self._memory().run(pipeline, feeds, cut, tasks=[_tasks(run, query) for run, query in members])

    def _take(self, run: Run, query: PersistentQuery, pipeline: Pipeline, output: Output) -> None:
        """Hand a query's output to its case."""
        collect(run, query, pipeline, output)

    def _memory(self) -> MemoryRunner:
        with self._opening:
            if self._runner is None:
                self._runner = MemoryRunner(open_test_session())
            return self._runner


def declared_partitions(case: model.Case) -> dict[str, int]:
    """The partitions of the topics that a case declares."""
    return {topic.name: topic.partitions for topic in case.topics}


def _tasks(run: Run, query: PersistentQuery) -> int:
    """How many tasks a query has: one, as in ksqlDB's own tests, unless a record of the case says which partition it is in."""
    if not any(given.partition for given in run.case.inputs):
        return 1
    topics = {
        run.session.catalog.sources[name].topic for name in query.plan.sources if name in run.session.catalog.sources
    }
    return max((count for topic, count in declared_partitions(run.case).items() if topic in topics), default=1)


def plan_text(case: model.Case) -> str:
    """The plan file of a case's statements.

    Raises:
        PlanningError: a statement is refused, or planning it breaks.
    """
    session = _session(case)
    text = "\n".join(case.statements)
    try:
        register_topics(session, case)
        statements = [
            executed.plan for parsed in session.parse(text) if (executed := session.execute(parsed)).plan is not None
        ]
    except EngineError as error:
        raise PlanningError(error.render(text)) from error
    except Exception as error:
        raise PlanningError(f"planning broke: {type(error).__name__}: {_short(error)}") from error
    configs = {name: session.config[name] for name in RESTORED}
    return dump_plan(PlanFile(tuple(statements), {**configs, WRITTEN_BY: engine_version()}))


def _session(case: model.Case) -> Session:
    return Session(config=properties_config(dict(case.properties), BASE_PROPERTIES), functions=functions_of(case))


def _guarded_prepare(case: model.Case) -> Run:
    try:
        return prepare(case)
    except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
        return Run(
            case, _session(case), [], {}, [], outcome=model.Crashed(message=f"{type(error).__name__}: {_short(error)}")
        )


def prepare(case: model.Case) -> Run:
    """Plan a case: statements or a stored plan, then its input records as bytes."""
    run = Run(case, _session(case), [], {}, [])
    run.outcome = _plan_stored(run) if case.plan is not None else _plan_statements(run)
    if run.outcome is None:
        run.pending = list(run.session.queries.values())
        run.inputs = list(input_records(run.session, run.case.inputs))
    return run


def _plan_statements(run: Run) -> model.Outcome | None:
    session = run.session
    text = "\n".join(run.case.statements)
    try:
        register_topics(session, run.case)
        statements = session.parse(text)
    except SqlSyntaxError as error:
        return model.Rejected(message=str(error), unlogged_message=f"{error}\nStatement: {text}", error_code=error.code)
    for index, parsed in enumerate(statements):
        try:
            _insert(run, session.execute(parsed).insert)
        except EngineError as error:
            rewritten = rewritten_text(parsed.statement, session.catalog, Types(session.functions, session.config))
            spellings = dict.fromkeys((parsed.text, format_statement(parsed.statement), rewritten))
            return model.Rejected(
                message=str(error),
                unlogged_message="\n".join(f"{error}\nStatement: {spelling}" for spelling in spellings),
                statement_index=index,
                is_last=index == len(statements) - 1,
                error_code=error.code,
            )
    return None


def _insert(run: Run, insert: ResolvedInsert | None) -> None:
    """Append the record of an INSERT VALUES to its topic, at the frozen clock of the test engine, which stands at 0."""
    if insert is None:
        return
    session = run.session
    constants = Constants(
        session.functions, lambda bounds: evaluate_constants(open_test_session(), bounds, session.config)
    )
    record = insert_record(insert, constants, session.serde(), lambda: 0)
    records = run.topics.setdefault(record.topic, [])
    records.append(replace(record, offset=len(records)))


def _plan_stored(run: Run) -> model.Outcome | None:
    assert run.case.plan is not None  # noqa: S101
    try:
        register_topics(run.session, run.case)
        execute_stored(run.session, run.case.plan, dict(run.case.properties), BASE_PROPERTIES)
        _insert_again(run)
    except EngineError as error:
        return model.Rejected(message=str(error), error_code=error.code)
    return None


def _insert_again(run: Run) -> None:
    """Carry out the INSERT VALUES of a stored case: its plan holds queries, not records."""
    if any(statement.lstrip().upper().startswith("INSERT") for statement in run.case.statements):
        for parsed in run.session.parse("\n".join(run.case.statements)):
            if isinstance(parsed.statement, InsertValues):
                _insert(run, run.session.execute(parsed).insert)


def query_run(run: Run, query: PersistentQuery) -> QueryRun:
    """What the pipeline needs to know of a query."""
    return QueryRun(plan=query.plan, settings=query.config, serde=run.session.serde())


def feed_of(run: Run, query: PersistentQuery) -> list[Record]:
    """What a query is fed: the case's own records for its topics, then what earlier queries wrote to the others."""
    topics = [
        run.session.catalog.sources[name].topic for name in query.plan.sources if name in run.session.catalog.sources
    ]
    given = {record.topic for record in run.inputs}
    fed = [record for record in run.inputs if record.topic in topics]
    for topic in dict.fromkeys(topics):
        if topic not in given:
            fed += run.topics.get(topic, [])
    return fed


def collect(run: Run, query: PersistentQuery, pipeline: Pipeline, output: Output) -> None:
    """Give a case what its query wrote and logged."""
    run.log += output.log
    fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
    if fatal is not None:
        run.outcome = model.Failed(
            message=f"{fatal.text} ({fatal.logger}, {fatal.topic}-{fatal.partition} at offset {fatal.offset})"
        )
        return
    for record in output.records:
        topic = run.topics.setdefault(record.topic, [])
        topic.append(replace(record, partition=0, offset=len(topic)))


def produced(run: Run) -> model.Outcome:
    """The records, sources, topics and log entries at the end of a case."""
    try:
        records = {topic: actual_records(run.session, topic, found) for topic, found in run.topics.items()}
    except EngineError as error:
        return model.Crashed(message=f"an output record cannot be read back: {error}")
    sources = tuple(source_state(source) for source in run.session.catalog.sources.values())
    serdes = last_serdes(run.session) if run.case.serdes is not None else {}
    log = tuple(model.LogEntry(_KINDS[entry.kind], entry.text, entry.topic, entry.offset) for entry in run.log)
    return model.Produced(
        records=records, sources=sources, topics=tuple(topic_states(run.session, run.case)), log=log, serdes=serdes
    )


def _short(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text.split("\n\nJVM stacktrace")[0][:2000]
