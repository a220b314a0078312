"""REST-QTT cases on our engine: statements, inputs, then the queries of all cases in common rounds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.case_records import actual_records, input_records
from kestrel_qtt.drivers.functions import functions_of
from kestrel_qtt.drivers.fused import crashed, failure, run_jobs
from kestrel_qtt.drivers.memory import Memory
from kestrel_qtt.drivers.rest.group import RestJob, Table, run_group
from kestrel_qtt.drivers.rest.protobuf import proto_elements
from kestrel_qtt.drivers.topics import register_topics
from kestrel_qtt.ksqldb.rest_cases import Answer, Answered, RestCase
from kestrel_sql.admin.answer import Answer as Told
from kestrel_sql.admin.answers import answer_of
from kestrel_sql.admin.readable import readable
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import EngineError, SqlSyntaxError, UnsupportedError
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.pull import current_messages, keeps, plan_pull
from kestrel_sql.queries.pull_state import TableReader, pull_rows
from kestrel_sql.queries.transient import QueryKind, Row, TransientQuery, plan_query
from kestrel_sql.session.insert_values import Constants, insert_record
from kestrel_sql.session.session import PersistentQuery, Session, properties_config
from kestrel_sql.spark.compile.constants import evaluate_constants
from kestrel_sql.spark.pipeline.pipeline import QueryRun
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.memory import MemoryBroker

BASE_PROPERTIES = {"auto.offset.reset": "earliest", "cache.max.bytes.buffering": 0}

_PARTITIONS = 4
"""Of topics that a case does not declare (rules Q4.2)."""


@dataclass(slots=True)
class _Run:
    """A case on its way."""

    case: RestCase
    session: Session
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    answers: list[Answer] = field(default_factory=list)
    proto_answers: list[Answer] = field(default_factory=list)
    asked: list[TransientQuery] = field(default_factory=list)
    pending: list[PersistentQuery] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    before_inputs: int = 0
    outcome: model.Outcome | None = None
    seconds: float = 0.0


def run_rest(cases: Sequence[RestCase], memory: Memory) -> Iterator[tuple[model.Case, model.Outcome, float]]:
    """Run a group of cases."""
    runs = []
    for case in cases:
        started = time.perf_counter()
        runs.append(_prepared(case))
        runs[-1].seconds = time.perf_counter() - started
    started = time.perf_counter()
    while active := [run for run in runs if run.outcome is None and run.pending]:
        _round(active, memory)
    _ask([run for run in runs if run.outcome is None], memory)
    share = (time.perf_counter() - started) / max(1, len(runs))
    for run in runs:
        yield run.case, run.outcome if run.outcome is not None else _answered(run), run.seconds + share


def _prepared(case: RestCase) -> _Run:
    session = Session(config=properties_config(dict(case.properties), BASE_PROPERTIES), functions=functions_of(case))
    run = _Run(case, session)
    try:
        run.outcome = _execute(run)
        if run.outcome is None:
            run.before_inputs = run.broker.arrivals
            for record in input_records(session, case.inputs):
                run.broker.produce(record)
            run.pending = [
                query for query in session.queries.values() if query.plan.sink is not None or _is_asked(run, query)
            ]
    except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
        run.outcome = crashed(error)
    return run


def _is_asked(run: _Run, query: PersistentQuery) -> bool:
    """Whether a pull query of the case asks for the table of a persistent query."""
    sources = run.session.catalog.sources
    return any(asked.kind is QueryKind.PULL_TABLE and keeps(query.plan, sources[asked.source]) for asked in run.asked)


def _execute(run: _Run) -> model.Outcome | None:
    """Carry the statements out: those before the first SELECT are one request, each SELECT is one of its own."""
    register_topics(run.session, run.case)
    texts = run.case.statements
    first = next((at for at, text in enumerate(texts) if text.startswith("SELECT ")), len(texts))
    index = 0
    for text in ("\n".join(texts[:first]), *texts[first:]):
        try:
            statements = run.session.parse(text)
        except SqlSyntaxError as error:
            return model.Rejected(message=f"{error}\nStatement: {text}", error_code=error.code)
        for at, parsed in enumerate(statements):
            try:
                _statement(run, parsed)
            except EngineError as error:
                last = text is texts[-1] and at == len(statements) - 1
                return model.Rejected(message=str(error), statement_index=index, is_last=last, error_code=error.code)
            index += 1
    return None


def _statement(run: _Run, parsed: ParsedStatement) -> None:
    session = run.session
    if isinstance(parsed.statement, Query):
        run.asked.append(_planned(run, parsed.statement))
        return
    told = answer_of(parsed.statement, EngineView(session=session, broker=run.broker))
    if told is not None:
        run.answers.append(Answer("admin", (_entity(told),)))
        return
    done = session.execute(parsed)
    for source in session.catalog.sources.values():
        run.broker.create(source.topic)
    if done.insert is None:
        run.answers.append(Answer("admin", ({"@type": "currentStatus", "statementText": parsed.text},)))
        return
    constants = Constants(
        session.functions, lambda bounds: evaluate_constants(open_test_session(), bounds, session.config)
    )
    run.broker.produce(insert_record(done.insert, constants, session.serde(), lambda: int(time.time() * 1000)))


def _entity(told: Told) -> dict[str, Any]:
    """The answer of a statement that asks, as an object: columns by name, rows, and the sentence."""
    rows = [list(row) for row in told.rows]
    return {"@type": "rows", "columns": [column.name for column in told.columns], "rows": rows, "message": told.message}


def _planned(run: _Run, query: Query) -> TransientQuery:
    session, number = run.session, len(run.asked)
    if query.emit is None:
        return plan_pull(query, session.catalog, session.config, f"transient_{number}", session.functions)
    scalable = session.config.get("auto.offset.reset") == "latest"
    query_id = f"SCALABLE_PUSH_QUERY_{number}" if scalable else f"transient_{number}"
    return plan_query(query, session.catalog, session.config, query_id, session.functions)


def _round(runs: Sequence[_Run], memory: Memory) -> None:
    """Run the next persistent query of every case."""
    jobs = []
    for run in runs:
        query = run.pending.pop(0)
        feed = run.broker.merged(_topics(run, query.plan))
        made = replace(_query_run(run, query.plan, query.config), queryable=_is_asked(run, query))
        jobs.append((run, RestJob(run=made, functions=run.session.functions, feed=feed)))
    _run_jobs([job for _, job in jobs], memory)
    for run, job in jobs:
        if job.table is not None:
            run.tables[job.run.plan.query_id] = job.table
        if job.output is None:
            run.outcome = job.outcome
            continue
        run.outcome = failure(job.output)
        if run.outcome is None:
            for record in job.output.records:
                run.broker.produce(record)


def _run_jobs(jobs: Sequence[RestJob], memory: Memory) -> None:
    run_jobs(jobs, lambda pipeline, members: run_group(memory.runner(), pipeline, members))


def _query_run(run: _Run, plan: QueryPlan, config: Config) -> QueryRun:
    return QueryRun(plan=plan, settings=config, serde=run.session.serde())


def _topics(run: _Run, plan: QueryPlan) -> list[str]:
    sources = run.session.catalog.sources
    return [sources[name].topic for name in plan.sources if name in sources]


def _ask(runs: Sequence[_Run], memory: Memory) -> None:
    """Run the queries that the cases ask: those over tables here, all others in Spark."""
    found: dict[tuple[int, int], RestJob | list[Row]] = {}
    for number, run in enumerate(runs):
        for at, query in enumerate(run.asked):
            found[number, at] = _asked(run, query)
    _run_jobs([job for job in found.values() if isinstance(job, RestJob)], memory)
    for (number, at), result in found.items():
        try:
            _take(runs[number], runs[number].asked[at], result)
        except EngineError as error:
            runs[number].outcome = model.Failed(message=str(error))


def _take(run: _Run, query: TransientQuery, result: RestJob | list[Row]) -> None:
    """Add the answer of a query to its case.

    Raises:
        EngineError: the query failed, or its rows cannot be said in protobuf.
    """
    if isinstance(result, RestJob):
        run.outcome = result.outcome if result.output is None else failure(result.output)
        if run.outcome is not None:
            return
        rows = query.rows(result.output.records, result.window) if result.output is not None else []
    else:
        rows = result
    run.answers.append(_answer(query, rows))
    if run.case.with_proto:
        run.proto_answers.append(Answer("queryProto", (*proto_elements(query.columns, rows), *_final(query, rows))))


def _asked(run: _Run, query: TransientQuery) -> RestJob | list[Row]:
    """The answer of a query over a table, or what Spark has to run for it."""
    made = _query_run(run, query.plan, run.session.config)
    job = RestJob(run=made, functions=run.session.functions, feed=())
    if query.kind is not QueryKind.PULL_TABLE:
        # A query that runs before the inputs come, and reads from the end, sees nothing older.
        late = run.case.late_inputs and run.session.config.get("auto.offset.reset") == "latest"
        job.feed = run.broker.merged(_topics(run, query.plan), run.before_inputs if late else 0)
        return job
    source = run.session.catalog.sources[query.source]
    if source.ingestion is not None:
        job.feed = current_messages(run.broker.records(source.topic))
        return job
    table = _table(run, query)
    if table is None:
        return []
    try:
        return pull_rows(query, table, [])
    except UnsupportedError:
        job.feed = table.records([])
        return job


def _table(run: _Run, query: TransientQuery) -> TableReader | None:
    session = run.session
    source = session.catalog.sources[query.source]
    keeper = next((each for each in session.queries.values() if keeps(each.plan, source)), None)
    if keeper is None or keeper.id not in run.tables:
        return None
    table = run.tables[keeper.id]
    return TableReader(
        source=source,
        kept=table.kept,
        states=table,
        functions=session.functions,
        settings=keeper.config,
        serde=session.serde(),
        query_id=keeper.id,
        partitions=max((topic.partitions for topic in run.case.topics), default=_PARTITIONS),
    )


def _answer(query: TransientQuery, rows: Sequence[Row]) -> Answer:
    schema = ", ".join(map(str, query.columns))
    elements: list[model.Actual] = [{"header": {"schema": schema, "queryId": query.plan.query_id}}]
    for row in rows:
        values = zip(row.values, query.columns, strict=True)
        content: dict[str, Any] = {"columns": [readable(value, column.type) for value, column in values]}
        elements.append({"row": {**content, "tombstone": True} if row.tombstone else content})
    return Answer("query", (*elements, *_final(query, rows)))


def _final(query: TransientQuery, rows: Sequence[Row]) -> Iterator[model.Actual]:
    if query.kind is not QueryKind.PULL_TABLE:
        yield {"finalMessage": "Limit Reached" if query.is_full(rows) else "Query Completed"}


def _answered(run: _Run) -> model.Outcome:
    try:
        records = {topic: actual_records(run.session, topic, run.broker.records(topic)) for topic in run.broker.topics}
    except EngineError as error:
        return model.Crashed(message=f"a record cannot be read back: {error}")
    return Answered(records=records, answers=(*run.answers, *run.proto_answers))
