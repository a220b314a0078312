"""Prepares a REST-QTT case on its own engine: executes its statements, plans its queries, produces its inputs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from google.protobuf import text_format
from google.protobuf.message_factory import GetMessageClass
from msgspec.structs import replace

from kestrel_qtt.cases import model
from kestrel_qtt.cases.model import Actual
from kestrel_qtt.drivers.case_config import crashed_config
from kestrel_qtt.drivers.case_records import actual_records, input_records
from kestrel_qtt.drivers.functions import functions_from
from kestrel_qtt.drivers.job import crashed
from kestrel_qtt.drivers.partitions import PARTITIONS, Partitions, declared_partitions, named_partitions
from kestrel_qtt.drivers.silence import unread_inputs
from kestrel_qtt.drivers.topics import NO_CACHE, register_topics
from kestrel_qtt.ksqldb.rest_cases import Answer, Answered, RestCase
from kestrel_sql.admin import answer as told
from kestrel_sql.admin.readable import readable
from kestrel_sql.errors import EngineError, SqlSyntaxError
from kestrel_sql.formats.protobuf import generate as proto_text
from kestrel_sql.formats.protobuf.schema import load
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.table import encoder
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.pull import schema_text
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.queries.transient import QueryKind, TransientQuery
from kestrel_sql.session.session import Session, properties_config
from kestrel_sql.sql.nodes.statements import InsertValues, Query
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import Column, Role


def admin_answer(statement: str, answer: told.Answer) -> Answer:
    """Return the response to a statement that is not a query: its entity, the lines of PRINT, or its success."""
    if answer.lines:
        return Answer("admin", ({"lines": list(answer.lines)},))
    status: Actual = {"status": "SUCCESS", "message": answer.message}
    success: Actual = {"@type": "currentStatus", "statementText": statement, "commandStatus": status}
    return Answer("admin", (answer.entity or success,))


def query_answer(query_id: str, kind: QueryKind, answer: told.Answer) -> Answer:
    """The response to a query: a header, the rows, and how it ended."""
    schema = schema_text(answer.columns)
    header: Actual = {"header": {"schema": schema, "queryId": query_id}}
    return Answer("query", (header, *({"row": content} for content in _contents(answer)), *_end(kind, answer)))


def proto_answer(kind: QueryKind, answer: told.Answer) -> Answer:
    """The same response in protobuf.

    Raises:
        FormatError: a column of a type that protobuf does not have.
    """
    return Answer("queryProto", (*proto_elements(answer.columns, answer.rows), *_end(kind, answer)))


def _contents(answer: told.Answer) -> Iterator[dict[str, Actual]]:
    """The rows of an answer as JSON has them."""
    types = [column.type for column in answer.columns]
    for at, row in enumerate(answer.rows):
        columns = [readable(value, sql_type) for value, sql_type in zip(row, types, strict=True)]
        yield {"columns": columns, "tombstone": True} if at in answer.tombstones else {"columns": columns}


def _end(kind: QueryKind, answer: told.Answer) -> Iterator[Actual]:
    if kind is not QueryKind.PULL_TABLE:
        yield {"finalMessage": "Limit Reached" if answer.limited else "Query Completed"}


def proto_elements(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> Iterator[Actual]:
    """The header and the rows of an answer.

    Raises:
        FormatError: a column of a type that protobuf does not have.
    """
    values = tuple(replace(column, role=Role.VALUE) for column in columns)
    text = proto_text.schema_text(values, None, None)
    yield {"header": {"protoSchema": text}}
    encode = encoder(SerdeSpec(FormatInfo("PROTOBUF_NOSR"), values))
    message = GetMessageClass(load(text, {}).at((0,)))
    for row in rows:
        yield {"row": text_format.MessageToString(message.FromString(encode(tuple(row)) or b""))}


BASE_PROPERTIES = {"auto.offset.reset": "earliest", "ksql.query.push.v2.enabled": True}


class Asked(msgspec.Struct, frozen=True):
    """A query of a case, and the arrival number of the first record that it sees."""

    planned: TransientQuery
    since: int


class RestRun(msgspec.Struct, eq=False):
    """A running case; `asked` are the queries to answer after the persistent queries have processed the inputs."""

    case: RestCase
    engine: MemoryEngine
    partitions: Partitions
    asked: list[Asked] = []
    answers: list[Answer] = []
    proto_answers: list[Answer] = []
    outcome: model.Outcome | None = None

    def advance(self) -> None:
        """Let the persistent queries process the inputs; one that dies ends the case."""
        for running in self.engine.queries.due() if self.outcome is None else ():
            self.engine.queries.advance(running)
            if running.error:
                self.outcome = model.Failed(running.error)
                return

    def result(self) -> model.Outcome:
        """The outcome that ended the case early, else its answers and what its topics hold."""
        if self.outcome is not None:
            return self.outcome
        answers = (*self.answers, *self.proto_answers)
        return answered(self.engine.session, held(self.engine.broker), answers, self._silence())

    def _silence(self) -> tuple[str, ...]:
        """Report the inputs that had no effect."""
        queries = [query.plan for query in self.engine.session.queries.values()]
        plans = [*queries, *(asked.planned.plan for asked in self.asked)]
        return tuple(unread_inputs(self.engine.session, self.case.inputs, plans))


def held(broker: MemoryBroker) -> Mapping[str, Sequence[Record]]:
    """The records of all topics in memory."""
    return {topic: broker.records(topic) for topic in broker.topics}


def answered(
    session: Session,
    topics: Mapping[str, Sequence[Record]],
    answers: tuple[Answer, ...],
    silence: tuple[str, ...] = (),
) -> Answered | model.Crashed:
    """What a case has at its end: the answers to its queries, and the records of all topics."""
    try:
        records = {topic: actual_records(session, topic, found) for topic, found in topics.items()}
    except EngineError as error:
        return model.Crashed(message=f"a record cannot be read back: {error}")
    return Answered(records=records, answers=answers, silence=silence)


def session_of(case: RestCase) -> tuple[Session, Partitions, int]:
    """Return a session for a case, the partitions of its topics, and how many the widest declared one has."""
    base = {**BASE_PROPERTIES, **(NO_CACHE if case.ksqldb else {})}
    session = Session(config=properties_config(dict(case.properties), base), functions=functions_from(case.functions))
    declared, named = declared_partitions(case.topics), named_partitions(case.inputs)
    partitions = Partitions(session, declared, named, others=PARTITIONS)
    return session, partitions, max(declared.values(), default=PARTITIONS)


def prepared(case: RestCase) -> RestRun:
    """Carry out the statements of a case up to its queries, and produce its inputs."""
    session, partitions, widest = session_of(case)
    broker = MemoryBroker(partition=partitions.of_output)
    engine = MemoryEngine(session, broker=broker, by_time=True, partitions=widest, topics=TopicRule.HARNESS)
    run = RestRun(case, engine, partitions)
    try:
        run.outcome = crashed_config(case) or _execute(run)
        if run.outcome is None:
            for _, record in input_records(session, case.inputs, partitions):
                broker.produce(record, record.partition)
    except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
        run.outcome = crashed(error)
    return run


def _execute(run: RestRun) -> model.Rejected | None:
    """Execute the statements: those before the first SELECT as one request, then each SELECT as its own."""
    register_topics(run.engine.session, run.case)
    texts = run.case.statements
    first = next((at for at, text in enumerate(texts) if text.startswith("SELECT ")), len(texts))
    index = 0
    for text in ("\n".join(texts[:first]), *texts[first:]):
        try:
            statements = run.engine.session.parse(text)
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


def _statement(run: RestRun, parsed: ParsedStatement) -> None:
    """Execute a statement; a query is answered after all persistent queries have processed the inputs."""
    if isinstance(parsed.statement, Query):
        run.asked.append(_planned(run, parsed.statement))
        return
    answer = run.engine.execute(parsed)
    run.partitions.declare(parsed.statement)
    if not isinstance(parsed.statement, InsertValues):
        run.answers.append(admin_answer(parsed.text, answer))


def _planned(run: RestRun, query: Query) -> Asked:
    """Plan a query under the id of a server.

    One that runs before the inputs come, and reads from the end, sees nothing older.
    """
    config = run.engine.session.config
    latest = config.get("auto.offset.reset") == "latest"
    kind = "SCALABLE_PUSH_QUERY" if latest and query.emit is not None else "transient"
    planned = run.engine.plan(query, config, f"{kind}_{query.source.name}_{len(run.asked)}")
    return Asked(planned, run.engine.broker.arrivals if latest and run.case.late_inputs else 0)


def run_rest(cases: Sequence[RestCase]) -> Iterator[tuple[model.Case, model.Outcome, float]]:
    """Run cases one by one, each on its own engine."""
    for case in cases:
        started = time.perf_counter()
        run = prepared(case)
        try:
            run.advance()
            _answer(run)
        except EngineError as error:
            run.outcome = model.Failed(str(error))
        except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
            run.outcome = crashed(error)
        yield case, run.result(), time.perf_counter() - started
        run.engine.close()


def _answer(run: RestRun) -> None:
    """Answer the queries of a case.

    Raises:
        EngineError: a query failed, or protobuf cannot express its rows.
    """
    config = run.engine.session.config
    for asked in run.asked if run.outcome is None else ():
        found = run.engine.answer(asked.planned, config, asked.since)
        kind = asked.planned.kind
        run.answers.append(query_answer(asked.planned.plan.query_id, kind, found))
        if run.case.with_proto:
            run.proto_answers.append(proto_answer(kind, found))
