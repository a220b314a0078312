"""Prepares a REST-QTT case on its own engine: executes its statements, plans its queries, produces its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.case_config import crashed_config
from kestrel_qtt.drivers.case_records import actual_records, input_records
from kestrel_qtt.drivers.functions import functions_from
from kestrel_qtt.drivers.job import crashed
from kestrel_qtt.drivers.partitions import PARTITIONS, Partitions, declared_partitions, named_partitions
from kestrel_qtt.drivers.rest.answers import admin_answer
from kestrel_qtt.drivers.silence import unread_inputs
from kestrel_qtt.drivers.topics import NO_CACHE, register_topics
from kestrel_qtt.ksqldb.rest_cases import Answer, Answered, RestCase
from kestrel_sql.errors import EngineError, SqlSyntaxError
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.queries.transient import TransientQuery
from kestrel_sql.session.session import Session, properties_config
from kestrel_sql.sql.nodes.statements import InsertValues, Query
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.records import Record

BASE_PROPERTIES = {"auto.offset.reset": "earliest", "ksql.query.push.v2.enabled": True}


@dataclass(frozen=True, slots=True)
class Asked:
    """A query of a case, and the arrival number of the first record that it sees."""

    planned: TransientQuery
    since: int


@dataclass(slots=True, eq=False)
class RestRun:
    """A running case; `asked` are the queries to answer after the persistent queries have processed the inputs."""

    case: RestCase
    engine: MemoryEngine
    partitions: Partitions
    asked: list[Asked] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    proto_answers: list[Answer] = field(default_factory=list)
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
            statements = run.engine.parse(text)
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
