"""An engine in one process: a session, topics in memory, and queries that resume from their checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock

from msgspec.structs import replace

from kestrel_sql.admin.answer import Answer, message_answer
from kestrel_sql.admin.answers import answer_of
from kestrel_sql.admin.effects import effect_of
from kestrel_sql.admin.view import EngineView
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import QueryError, StatementError, attach_span
from kestrel_sql.java.regex.time_limit import is_limited
from kestrel_sql.plan.copartitioning import check_partitions
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.execution import Carrier, Execution, ProcessCarrier
from kestrel_sql.queries.persistent import RunningQueries, Turn
from kestrel_sql.queries.processing_log import LogStream
from kestrel_sql.queries.pull import check_no_null_key, current_messages, not_queryable, plan_pull, standing_error
from kestrel_sql.queries.pull_state import TableReader, pull_rows
from kestrel_sql.queries.topic_rules import TopicRule, declare_topic, partition_in
from kestrel_sql.queries.transient import QueryKind, Row, TransientQuery, answer_with, is_scalable, plan_query
from kestrel_sql.session.insert_values import Constants, insert_record
from kestrel_sql.session.session import Executed, Session
from kestrel_sql.sql.nodes.admin import ControlQuery
from kestrel_sql.sql.nodes.statements import DropSource, InsertValues, Query
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.records import LogEntry, Record

_MOMENT_S = 0.05
"""The interval (s) at which a waiting statement checks its condition."""

_MOST_ROWS = 1_000_000
"""How many rows a request may have of a query that runs for it: 0.3 GB."""


@dataclass(slots=True)
class MemoryEngine:
    """Executes statements over topics in memory, with the queries that a carrier runs.

    A persistent query processes new records when its results are needed. With `by_time` it reads several topics merged
    by timestamp, as from a broker, otherwise in the order of arrival. `topics` says which topics there are;
    `partitions` is the number that the order of the rows of a table depends on where only a harness knows it.
    """

    session: Session = field(default_factory=Session)
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    by_time: bool = False
    carrier: Carrier = field(default_factory=ProcessCarrier, kw_only=True)
    now: Callable[[], int] = lambda: int(time.time() * 1000)
    partitions: int = 1
    topics: TopicRule = TopicRule.HARNESS
    log: list[LogEntry] = field(default_factory=list)
    queries: RunningQueries = field(init=False)
    _asked: int = 0
    _taking: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Start without queries."""
        if self.topics is TopicRule.BROKER:
            self.broker.partition = lambda record: partition_in(record, self.session, self.broker)
        stream = LogStream(self.session, self.broker)
        stream.open()
        self.queries = RunningQueries(
            self.session, self.broker, self._open, by_time=self.by_time, log=self.log, log_stream=stream
        )

    def close(self) -> None:
        """Stop the queries and remove what is left of them."""
        self.queries.close()
        self.carrier.close()

    def execute(self, parsed: ParsedStatement) -> Answer:
        """Execute a statement and return its answer.

        An interrupt stops the query of the statement, but waits for persistent queries.

        Raises:
            EngineError: the statement is refused, or its query fails.
            KeyboardInterrupt: the user interrupted the statement.
        """
        with attach_span(parsed.span):
            return self._execute(parsed)

    def produce(self, record: Record) -> None:
        """Add a record to a topic."""
        if self.queries.must_interleave():
            self.flush()
        self.broker.produce(record)

    def flush(self) -> None:
        """Let every persistent query process its new records, in the order of their statements."""
        for running in self.queries.due():
            self.queries.advance(running)

    def constants(self) -> Constants:
        """Return the evaluator of constant expressions."""
        return Constants(self.session.functions, self.session.config)

    def plan(self, query: Query, config: Config, query_id: str) -> TransientQuery:
        """Plan a push query (with EMIT) or a pull query.

        Raises:
            StatementError: the query is refused.
        """
        plan = plan_pull if query.emit is None else plan_query
        planned = plan(query, self.session.catalog, config, query_id, self.session.functions)
        check_partitions(planned.plan.physical_plan, self.session.partitions)
        persistent = (running.plan for running in self.session.queries.values())
        return replace(planned, scalable=is_scalable(query, config, persistent))

    def answer(self, planned: TransientQuery, config: Config, since: int = 0) -> Answer:
        """Answer a planned query from the current contents of its sources.

        Args:
            planned: the query; persistent queries have been flushed.
            config: its settings.
            since: the arrival number (`arrivals` of the broker) from which a query over topics reads.

        Raises:
            EngineError: the query fails.
        """
        found = self.look_up(planned, since)
        if isinstance(found, Answer):
            return found
        with closing(self._open(self.run_of(planned, config))) as execution:
            return answer_with(planned, self._rows(planned, execution, found))

    def look_up(self, planned: TransientQuery, since: int = 0) -> Answer | list[Record]:
        """Return the answer of a query if state has it, or else the records over which the query must run.

        Args:
            planned: the query; persistent queries have been flushed.
            since: the arrival number (`arrivals` of the broker) from which a query over topics reads.

        Raises:
            QueryError: the table cannot be read because of an error that is not corrected yet.
            StatementError: the query that materialised the table was terminated.
        """
        if planned.limit == 0:
            return Answer(columns=planned.columns, limited=True)
        if planned.kind is not QueryKind.PULL_TABLE:
            read = self.queries.read(self.queries.topics_of(planned.plan), since)
            return [record for record in read if planned.admits(record)]
        source = self.session.catalog.sources[planned.source]
        if source.ingestion is not None:
            records = self.broker.records(source.topic)
            check_no_null_key(records, source)
            return current_messages(records)
        table = self._table(source)
        if table is None:
            return answer_with(planned, [])
        return answer_with(planned, pull_rows(planned, table, self.log))

    def run_of(self, planned: TransientQuery, config: Config) -> QueryRun:
        """Return the run of a query that state cannot answer."""
        return QueryRun(plan=planned.plan, settings=config, serde=self.session.serde())

    def define(self, planned: Executed) -> Executed:
        """Execute a statement that is planned, and update topics and queries.

        Raises:
            StatementError: the statement is refused; nothing has changed.
        """
        session = self.session
        before = session.catalog, dict(session.queries), session.counter, dict(session.partitions)
        done = session.commit(planned)
        if self.topics is TopicRule.BROKER:
            try:
                declare_topic(done, session, self.broker)
            except BaseException:
                session.catalog, session.queries, session.counter, session.partitions = before
                session.retract(done.registered)
                raise
        if done.deletes is not None:
            self.broker.delete(done.deletes.topic)
            session.partitions.pop(done.deletes.topic, None)
            session.delete_schemas(done.deletes)
        self.queries.log_stream.open()
        for source in self.session.catalog.sources.values():
            self.broker.create(source.topic)
        self.queries.follow_session()
        return done

    def take_log(self) -> list[LogEntry]:
        """Return the entries of the processing log since the last call."""
        with self._taking:
            entries = self.log[:]
            del self.log[: len(entries)]
            return entries

    def _execute(self, parsed: ParsedStatement) -> Answer:
        match parsed.statement:
            case Query() as query:
                self.flush()
                with self.carrier.interruptible():
                    return self._ask(query)
            case InsertValues():
                return self._insert(parsed)
            case ControlQuery() as control:
                self.flush()
                return self.control(control)
            case _:
                self.flush()
                found = answer_of(parsed, self._view())
                return self._change(parsed) if found is None else found

    def _change(self, parsed: ParsedStatement) -> Answer:
        statement = parsed.statement
        known = self.session.catalog.sources
        dropped = known.get(statement.name) if isinstance(statement, DropSource) else None
        done = self.define(self.session.plan(parsed))
        return message_answer(done.message or effect_of(statement, done, dropped))

    def _insert(self, parsed: ParsedStatement) -> Answer:
        done = self.session.execute(parsed)
        if done.insert is None:
            raise StatementError("nothing to insert", span=parsed.span)
        self.produce(insert_record(done.insert, self.constants(), self.session.serde(), self.now))
        return message_answer("inserted")

    def control(self, control: ControlQuery) -> Answer:
        """Terminate, pause or resume a query, whatever it has still to process.

        Raises:
            StatementError: the query does not exist, or would fail again.
        """
        refused: list[StatementError] = []
        names = list(self.session.queries) if control.query_id is None else [control.query_id]
        for name in names:
            if name not in self.session.queries:
                raise StatementError(
                    f"Unknown queryId: {name}", span=control.span, hint="SHOW QUERIES lists the running ones"
                )
            match control.verb:
                case "PAUSE":
                    self.queries.paused.add(name)
                case "RESUME":
                    refused += self._resumed(name)
                case _:
                    self.queries.terminate(name)
        if refused:
            raise refused[0]
        return message_answer(effect_of(control, None, None))

    def _resumed(self, name: str) -> list[StatementError]:
        """Resume a query; return why it cannot."""
        try:
            self.queries.resume(name)
        except StatementError as error:
            return [error]
        return []

    def _ask(self, query: Query) -> Answer:
        query_id = f"transient_{query.source.name}_{self._asked}"
        self._asked += 1
        return self.answer(self.plan(query, self.session.config, query_id), self.session.config)

    def _rows(self, planned: TransientQuery, execution: Execution, records: Sequence[Record]) -> list[Row]:
        """Return what a query makes of records; for a request in pieces, which hold little beside their rows.

        Raises:
            QueryError: the query failed, could not read a record of its table, or has too many rows for a request.
        """
        table = self.session.catalog.sources.get(planned.source) if planned.kind is QueryKind.PULL_TABLE else None
        rows: list[Row] = []
        at, turn = 0, Turn(1 if is_limited() else max(1, len(records)))
        while at < len(records) and not planned.is_full(rows):
            begun, piece = time.monotonic(), records[at : at + turn.size]
            output = execution.advance(piece)
            self.log += output.log
            fatal = standing_error(output.log, table)
            if fatal is not None:
                raise QueryError(fatal.text)
            rows += planned.rows(output.records, execution.window)
            if is_limited() and len(rows) > _MOST_ROWS:
                raise QueryError(
                    f"An answer has at most {_MOST_ROWS} rows",
                    hint="limit them with LIMIT, or stream them with EMIT CHANGES",
                )
            at += len(piece)
            turn.took(len(piece), time.monotonic() - begun)
        return rows[: planned.limit]

    def _table(self, source: Source) -> TableReader | None:
        """Return a reader of a table for pull queries; None if its query has had no input."""
        running = self.queries.query_of(source)
        if running is None:
            raise not_queryable(source, None)
        table = None if running.execution is None else running.execution.table()
        if table is None:
            return None
        return TableReader(
            source=source,
            stored=table,
            functions=self.session.functions,
            settings=running.query.config,
            serde=self.session.serde(),
            query_id=running.query.id,
            partitions=max(self.partitions, self.broker.count_of(source.topic)),
        )

    def _open(self, run: QueryRun) -> Execution:
        return self.carrier.open(run, self.session.functions)

    def _view(self) -> EngineView:
        return EngineView(
            session=self.session,
            broker=self.broker,
            paused=frozenset(self.queries.paused),
            failed=self.queries.failures(),
            counts={name: (each[0], each[1]) for name, each in self.queries.progress().items()},
            wait=self._wait,
        )

    def _wait(self) -> None:
        """Wait for other threads to change topics and schemas, then let the queries process new records."""
        time.sleep(_MOMENT_S)
        self.flush()
