"""A whole engine in one process: a session, topics in memory, and queries that go on from their checkpoints."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from kestrel_sql.admin.answer import Answer, message_answer
from kestrel_sql.admin.answers import answer_of
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import CheckpointError, QueryError, StatementError, UnsupportedError, attach_span
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.interrupts import interrupts_wait
from kestrel_sql.queries.pull import (
    check_no_null_key,
    current_messages,
    keeps,
    not_queryable,
    plan_pull,
    standing_error,
)
from kestrel_sql.queries.pull_state import TableReader, pull_rows
from kestrel_sql.queries.transient import QueryKind, TransientQuery, answer_with, plan_query
from kestrel_sql.session.insert_values import Constants, insert_record
from kestrel_sql.session.session import Executed, PersistentQuery, Session
from kestrel_sql.spark.build.queryable import kept_table
from kestrel_sql.spark.compile.constants import evaluate_constants
from kestrel_sql.spark.in_memory.resumable import ResumableQuery, ResumableRunner
from kestrel_sql.spark.pipeline.pipeline import Pipeline, QueryRun, build_pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.stages.log_entries import FATAL
from kestrel_sql.spark.state.checkpoint_reader import CheckpointReader
from kestrel_sql.sql.nodes.admin import ControlQuery
from kestrel_sql.sql.nodes.statements import InsertValues, Query
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.records import LogEntry, Record

_CHUNK = 10_000
"""Records that a query processes before its progress shows."""

_MOMENT = 0.05
"""Seconds between two looks at what a statement waits for."""


@dataclass(slots=True)
class _Running:
    """A persistent query on its way: how far it has read, what of that it has still to process, and what it last ran as."""

    query: PersistentQuery
    position: int
    pending: Sequence[Record] = ()
    pipeline: Pipeline | None = None
    execution: ResumableQuery | None = None
    reader: CheckpointReader | None = None
    rows_in: int = 0
    rows_out: int = 0
    error: str = ""

    def close(self) -> None:
        """Give back what the reader of its state holds."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None


@dataclass(slots=True)
class MemoryEngine:
    """Executes statements over topics in memory; Spark starts when the first query has input.

    A persistent query processes what arrived whenever its results are asked for. With `by_time` it reads several topics merged
    by timestamp, as from a broker, otherwise in the order in which the records arrived.
    """

    session: Session = field(default_factory=Session)
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    by_time: bool = False
    open_spark: Callable[[], SparkSession] = lambda: open_test_session()
    now: Callable[[], int] = lambda: int(time.time() * 1000)
    log: list[LogEntry] = field(default_factory=list)
    paused: set[str] = field(default_factory=set)
    _running: dict[str, _Running] = field(default_factory=dict)
    _runner: ResumableRunner | None = None
    _asked: int = 0

    def close(self) -> None:
        """Remove what the runner keeps on disk."""
        for running in self._running.values():
            running.close()
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def parse(self, text: str) -> tuple[ParsedStatement, ...]:
        """Parse a script.

        Raises:
            SqlSyntaxError: at the first place that is not of the language.
        """
        return self.session.parse(text)

    def execute(self, parsed: ParsedStatement) -> Answer:
        """Carry a statement out and give its answer; an interrupt stops the query that runs for it, and waits for persistent ones.

        Raises:
            EngineError: the statement is refused, or the query that it asks fails.
            KeyboardInterrupt: there was one.
        """
        with attach_span(parsed.span):
            return self._execute(parsed)

    def _execute(self, parsed: ParsedStatement) -> Answer:
        match parsed.statement:
            case Query() as query:
                self.flush()
                with interrupts_wait(self._stop_queries):
                    return self._ask(query)
            case InsertValues():
                return self._insert(parsed)
            case ControlQuery() as steer:
                return self._steer(steer)
            case statement:
                self.flush()
                found = answer_of(statement, self._view())
                return message_answer(self.define(parsed).message or "done") if found is None else found

    def produce(self, record: Record) -> None:
        """Put a record into a topic."""
        if self._must_interleave():
            self.flush()
        self.broker.produce(record)

    def flush(self) -> None:
        """Let every persistent query process what has arrived, in the order of their statements."""
        self._adopt()
        for running in self._running.values():
            if running.query.id not in self.paused and not running.error:
                self._advance(running)

    def progress(self) -> Mapping[str, tuple[int, int, int, str]]:
        """Rows in, rows out, lag in records and error of every query."""
        lags = self.lags()
        return {
            name: (x.rows_in, x.rows_out, sum(lags[name].values()), x.error)
            for name, x in [*self._running.items()]
            if name in lags
        }

    def lags(self) -> Mapping[str, Mapping[str, int]]:
        """The records that every query has still to process, by topic; may be asked while the engine works."""
        return {name: self._lag(running) for name, running in [*self._running.items()]}

    def _lag(self, running: _Running) -> dict[str, int]:
        pending = Counter(record.topic for record in running.pending)
        return {
            topic: pending[topic] + self.broker.waiting([topic], running.position)
            for topic in self._topics(running.query.plan)
        }

    def define(self, parsed: ParsedStatement) -> Executed:
        """Carry out a statement that changes the session, and take over its topics and queries.

        Raises:
            StatementError: the statement is refused; nothing has changed.
        """
        done = self.session.execute(parsed)
        if done.deletes is not None:
            self.broker.delete(done.deletes.topic)
            self.session.delete_schemas(done.deletes)
        for source in self.session.catalog.sources.values():
            self.broker.create(source.topic)
        self._adopt()
        return done

    def _insert(self, parsed: ParsedStatement) -> Answer:
        done = self.session.execute(parsed)
        if done.insert is None:
            raise StatementError("nothing to insert", span=parsed.span)
        self.produce(insert_record(done.insert, self.constants(), self.session.serde(), self.now))
        return message_answer("inserted")

    def constants(self) -> Constants:
        """What evaluates constant expressions."""
        return Constants(
            self.session.functions, lambda bounds: evaluate_constants(self.open_spark(), bounds, self.session.config)
        )

    def _steer(self, steer: ControlQuery) -> Answer:
        self.flush()
        names = list(self.session.queries) if steer.query_id is None else [steer.query_id]
        for name in names:
            if name not in self.session.queries:
                raise StatementError(
                    f"Unknown queryId: {name}", span=steer.span, hint="SHOW QUERIES lists the running ones"
                )
            match steer.verb:
                case "PAUSE":
                    self.paused.add(name)
                case "RESUME":
                    self.paused.discard(name)
                case _:
                    self.session.queries.pop(name)
                    self._drop(name)
                    self.paused.discard(name)
        return message_answer(f"{steer.verb.lower()}d: {', '.join(names) or 'no query'}")

    def _adopt(self) -> None:
        """Take over the session's queries: new ones, replaced ones, dropped ones."""
        latest = self.session.config.get("auto.offset.reset") == "latest"
        for name in [name for name in self._running if name not in self.session.queries]:
            self._drop(name)
        for name, query in self.session.queries.items():
            running = self._running.get(name)
            if running is None:
                self._running[name] = _Running(query, self.broker.arrivals if latest else 0)
            elif running.query is not query:
                running.query = query
                if running.execution is not None:
                    self._replace(running, running.execution)

    def _replace(self, running: _Running, execution: ResumableQuery) -> None:
        """Go on as CREATE OR REPLACE says.

        Raises:
            CheckpointError: the state does not fit; the query is stopped, for it must not go on without one.
        """
        pipeline = self._build(running.query.plan, running.query.config, queryable=True)
        try:
            execution.upgrade(pipeline)
        except CheckpointError as error:
            running.error = error.message
            raise
        running.pipeline = pipeline

    def _drop(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is not None:
            running.close()

    def _advance(self, running: _Running) -> None:
        topics = self._topics(running.query.plan)
        # Records may arrive while this one reads.
        until = self.broker.arrivals
        running.pending = [*running.pending, *self._read(topics, running.position, until)]
        running.position = until
        if not running.pending:
            return
        if running.execution is None:
            with interrupts_wait():
                running.pipeline = self._build(running.query.plan, running.query.config, queryable=True)
                running.execution = self._memory().open(running.pipeline)
        self._work(running, running.execution)

    def _work(self, running: _Running, execution: ResumableQuery) -> None:
        """Process what is pending; an interrupt comes between two pieces, so that none is lost or done twice."""
        while running.pending and not running.error:
            with interrupts_wait():
                self._process(running, execution, running.pending[:_CHUNK])
                running.pending = running.pending[_CHUNK:]

    def _process(self, running: _Running, execution: ResumableQuery, records: Sequence[Record]) -> None:
        output = execution.advance(records)
        self.log += output.log
        running.rows_in += len(records)
        running.rows_out += len(output.records)
        for record in output.records:
            self.broker.produce(record)
        fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
        if fatal is not None:
            running.error = (
                f"{running.query.id}: {fatal.text} ({fatal.topic}, partition {fatal.partition}, offset {fatal.offset})"
            )

    def _must_interleave(self) -> bool:
        """Whether a query reads a derived topic beside another, so that the order of single records shows."""
        derived = {q.plan.sink for q in self.session.queries.values()}
        return any(len(q.plan.sources) > 1 and derived & set(q.plan.sources) for q in self.session.queries.values())

    def _ask(self, query: Query) -> Answer:
        return self.answer(self._planned(query), self.session.config)

    def answer(self, planned: TransientQuery, config: Config) -> Answer:
        """Answer a planned query from what its sources hold now.

        Raises:
            EngineError: the query fails.
        """
        if planned.limit == 0:
            return Answer(columns=planned.columns, limited=True)
        found = self._kept_rows(planned)
        if not isinstance(found, list):
            return found
        pipeline = self._build(planned.plan, config)
        output = self._memory().run(pipeline, [found])[0]
        self.log += output.log
        asked = self.session.catalog.sources.get(planned.source) if planned.kind is QueryKind.PULL_TABLE else None
        fatal = standing_error(output.log, asked)
        if fatal is not None:
            raise QueryError(fatal.text)
        return answer_with(planned, planned.rows(output.records, pipeline.group.ends[0].window))

    def _planned(self, query: Query) -> TransientQuery:
        session = self.session
        query_id = f"transient_{query.source.name}_{self._asked}"
        self._asked += 1
        plan = plan_pull if query.emit is None else plan_query
        return plan(query, session.catalog, session.config, query_id, session.functions)

    def _kept_rows(self, planned: TransientQuery) -> Answer | list[Record]:
        """The answer of a pull query out of a state, or the records that Spark has to answer from."""
        if planned.kind is not QueryKind.PULL_TABLE:
            return self._read(self._topics(planned.plan), 0)
        source = self.session.catalog.sources[planned.source]
        if source.ingestion is not None:
            records = self.broker.records(source.topic)
            check_no_null_key(records, source)
            return current_messages(records)
        table = self._table(planned)
        if table is None:
            return answer_with(planned, [])
        try:
            return answer_with(planned, pull_rows(planned, table, self.log))
        except UnsupportedError:
            return table.records(self.log)

    def _table(self, planned: TransientQuery) -> TableReader | None:
        """The state of the table that a pull query asks; None if its query has not had input.

        Raises:
            StatementError: its query was terminated, so that nothing keeps the table any more.
        """
        source = self.session.catalog.sources[planned.source]
        running = next((each for each in self._running.values() if keeps(each.query.plan, source)), None)
        if running is None:
            raise not_queryable(source, None)
        if running.execution is None or running.pipeline is None:
            return None
        kept = kept_table(running.pipeline.group, 0, running.query.plan.physical_plan)
        return (
            None
            if kept is None
            else TableReader(
                source=source,
                kept=kept,
                states=self._states(running, running.execution, running.pipeline),
                functions=self.session.functions,
                settings=running.query.config,
                serde=self.session.serde(),
                query_id=running.query.id,
            )
        )

    def _states(self, running: _Running, execution: ResumableQuery, pipeline: Pipeline) -> CheckpointReader:
        path = str(execution.checkpoint)
        if running.reader is None or running.reader.path != path:
            running.close()
            running.reader = CheckpointReader(
                self._memory().spark, path, levels=len(pipeline.group.levels), tasks=1, pages=1
            )
        return running.reader

    def _read(self, topics: list[str], since: int, until: int | None = None) -> list[Record]:
        return self.broker.merged(topics, since, until) if self.by_time else self.broker.arrived(topics, since, until)

    def _topics(self, plan: QueryPlan) -> list[str]:
        sources = self.session.catalog.sources
        return [sources[name].topic for name in plan.sources if name in sources]

    def _build(self, plan: QueryPlan, config: Config, *, queryable: bool = False) -> Pipeline:
        run = QueryRun(
            plan=plan, settings=config, serde=self.session.serde(), queryable=queryable, replaceable=queryable
        )
        return build_pipeline([run], self.session.functions)

    def _memory(self) -> ResumableRunner:
        if self._runner is None:
            self._runner = ResumableRunner(self.open_spark())
        return self._runner

    def _view(self) -> EngineView:
        return EngineView(session=self.session, broker=self.broker, paused=frozenset(self.paused), wait=self._wait)

    def _stop_queries(self) -> None:
        for query in self._runner.spark.streams.active if self._runner is not None else ():
            query.stop()

    def _wait(self) -> None:
        """Give others a moment to change topics and schemas, and let the queries process what came."""
        time.sleep(_MOMENT)
        self.flush()
