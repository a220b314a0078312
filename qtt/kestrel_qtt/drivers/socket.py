"""Runs cases over a socket, with the requests of a client: on a server in memory each, or all on one over a broker."""

from __future__ import annotations

import base64
import http.client
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
from google.protobuf import text_format
from google.protobuf.message_factory import GetMessageClass

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.case_records import input_records
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.drivers.full import FullDriver
from kestrel_qtt.drivers.job import crashed
from kestrel_qtt.drivers.partitions import PARTITIONS, Partitions, declared_partitions, named_partitions
from kestrel_qtt.drivers.records.process_topics import ProcessTopics
from kestrel_qtt.drivers.rest import BASE_PROPERTIES, answered, held, session_of
from kestrel_qtt.drivers.served import BrokerServer, broker_serving
from kestrel_qtt.drivers.topics import register_topics
from kestrel_qtt.ksqldb.rest_cases import Answer, RestCase
from kestrel_qtt.ksqldb.sql_scripts import ScriptCase
from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.formats.protobuf.schema import load
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.server.open import Running, ServerSettings, memory_server
from kestrel_sql.session.session import Session
from kestrel_sql.sql.parse.parser import parse_script
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.records import Record

_ROWS, _PROTO = "application/vnd.ksql.v1+json", "application/vnd.ksql.v1+protobuf"
_SHARED_PUSH = "ksql.query.push.v2.enabled"
"""ksqlDB's cases expect it to be on."""

_CONTROLS = re.compile(r"(?:PAUSE|RESUME|TERMINATE|EXPLAIN)\b", re.IGNORECASE)
_WAITS = re.compile(r"(?:CREATE\s+OR\b|PAUSE|RESUME|TERMINATE|DROP|SHOW|LIST|DESCRIBE|ASSERT)", re.IGNORECASE)
_QUERY_ID = re.compile(r"\b(?:C[ST]AS|CST|INSERTQUERY)_\w*?(\d+)\b")

_PATIENCE_S = 300.0
_MOMENT_S = 0.02
_QUIET_S = 1.0


class SocketDriver(FullDriver):
    """Runs cases of REST answers on servers in memory, one each; on one server over a broker, cases of records, too."""

    def __init__(self, servers: str | None = None) -> None:
        """Open nothing before the first case; `servers` names the broker."""
        super().__init__(ProcessTopics())
        self._servers = servers
        self._stack = ExitStack()
        self._server: BrokerServer | None = None

    def run(
        self, cases: Sequence[model.Case], options: RunOptions
    ) -> Iterator[tuple[model.Case, model.Outcome, float]]:
        """Run the cases one by one; each is yielded once with its outcome and its seconds."""
        for case in cases:
            if isinstance(case, ScriptCase) or (self._servers is None and not isinstance(case, RestCase)):
                continue
            started = time.perf_counter()
            try:
                outcome = self._run(case)
            except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
                outcome = crashed(error)
            yield case, outcome, time.perf_counter() - started

    def carrier_of(self, case: model.Case) -> str:
        """What runs the queries of a case on its server."""
        return "process" if self._servers is None else "spark"

    def close(self) -> None:
        """End the server."""
        self._stack.close()
        super().close()

    def _run(self, case: model.Case) -> model.Outcome:
        if self._servers is None and isinstance(case, RestCase):
            return _run_in_memory(case)
        if self._server is None:
            self._server = self._stack.enter_context(broker_serving(self._servers or ""))
        with self._server.case(case):
            return _run_on_broker(case, self._server)


class _RefusedError(Exception):
    """A request that the server refused; the text is its message, `code` the server's error code."""

    def __init__(self, error: dict[str, object]) -> None:
        super().__init__(error["message"])
        self.code = str(error["error_code"])


class _Asking(msgspec.Struct, kw_only=True):
    """A case that is running against its server.

    `send` puts records into topics; the `properties` go along with every request.
    """

    case: model.Case
    session: Session
    running: Running
    partitions: Partitions
    send: Callable[[Sequence[Record]], None]
    properties: Mapping[str, object] = {}
    answers: list[Answer] = []
    proto_answers: list[Answer] = []
    fed: bool = False
    _queries: list[str] = []

    def run(self, records: Callable[[], Mapping[str, Sequence[Record]]]) -> model.Outcome:
        """Send the statements, and give the answers and what is in the topics then."""
        texts = self.case.statements
        first = next((at for at, text in enumerate(texts) if text.startswith("SELECT ")), len(texts))
        responses = self.case.responses if isinstance(self.case, RestCase) else ()
        wanted = [each["query"] for each in responses if "query" in each]
        at = first - 1
        try:
            for text in _requests(texts[:first]):
                self.statements(text)
            asked = 0
            for text in texts[first:]:
                at += 1
                if not text.startswith("SELECT "):
                    self.feed()
                    self.statements(text)
                    continue
                expected = wanted[asked] if asked < len(wanted) else []
                asked += 1
                self.query(text, len(expected) if isinstance(expected, list) else 0)
            self.feed()
        except _RefusedError as error:
            return model.Rejected(message=str(error), statement_index=max(at, 0), error_code=error.code)
        except SqlSyntaxError as error:
            return model.Rejected(message=str(error), error_code=error.code)
        return answered(self.session, records(), (*self.answers, *self.proto_answers))

    def statements(self, text: str) -> None:
        """Send statements that are not queries in one request, and keep the entities."""
        if _WAITS.match(text):
            self.settle()
        text = self._named(text)
        parsed = parse_script(text, dict(self.case.variables))
        body = {"ksql": text, "streamsProperties": self.properties, "sessionVariables": dict(self.case.variables)}
        with closing(self._connection()) as connection:
            answer = _sent(connection, "/ksql", body, "application/json")
            self.answers += [Answer("admin", (entity,)) for entity in json.loads(answer.read())]
        for each in parsed:
            self.partitions.declare(each.statement)
        self._queries += [name for name in self.session.queries if name not in self._queries]

    def _named(self, text: str) -> str:
        """Write the ids of queries as the server gave them; cases count the queries, a command topic all commands."""
        if not _CONTROLS.match(text):
            return text
        names = self._queries
        return _QUERY_ID.sub(lambda found: names[int(found[1])] if int(found[1]) < len(names) else found[0], text)

    def query(self, text: str, expected: int) -> None:
        """Send a query, and keep its answer; a push query is closed once it has returned `expected` elements."""
        self.answers.append(Answer("query", tuple(self._elements(text, _ROWS, expected))))
        if isinstance(self.case, RestCase) and self.case.with_proto:
            elements = tuple(_readable(list(self._elements(text, _PROTO, expected))))
            self.proto_answers.append(Answer("queryProto", elements))

    def feed(self) -> None:
        """Produce the inputs, and wait until all persistent queries have processed them."""
        if not self.fed:
            self.fed = True
            self.send([record for _, record in input_records(self.session, self.case.inputs, self.partitions)])
        self.settle()

    def settle(self) -> None:
        """Wait until all persistent queries have processed what is in their topics."""
        service, since = self.running.service, time.monotonic()
        service.wake()
        while not service.is_settled(since):
            if time.monotonic() > since + _PATIENCE_S:
                raise TimeoutError(f"the queries have not processed the inputs within {_PATIENCE_S:.0f} s")
            time.sleep(_MOMENT_S)

    def _elements(self, text: str, accept: str, expected: int) -> Iterator[dict[str, Any]]:
        with closing(self._connection()) as connection:
            if not (isinstance(self.case, RestCase) and self.case.late_inputs):
                self.feed()
            answer = _sent(connection, "/query-stream", {"sql": text, "properties": self.properties}, accept)
            self.feed()
            count, query_id = 0, ""
            for line in answer:
                element = _element(line)
                if element is None:
                    continue
                count += 1
                if "header" in element:
                    query_id = element["header"].get("queryId", "")
                    if accept == _PROTO:
                        del element["header"]["queryId"], element["header"]["schema"]
                yield element
                if "EMIT" in text.upper() and "LIMIT" not in text.upper() and count == expected - 1:
                    time.sleep(_QUIET_S)
                    self._close(query_id)

    def _close(self, query_id: str) -> None:
        with closing(self._connection()) as connection:
            connection.request("POST", "/close-query", json.dumps({"queryId": query_id}))
            connection.getresponse().read()

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.running.url)
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE_S)


def _requests(texts: Sequence[str]) -> Iterator[str]:
    """The statements that go together in one request; one that waits for the queries before it begins another."""
    together: list[str] = []
    for text in texts:
        if _WAITS.match(text) and together:
            yield "\n".join(together)
            together = []
        together.append(text)
    if together:
        yield "\n".join(together)


def _run_in_memory(case: RestCase) -> model.Outcome:
    session, partitions, widest = session_of(case)
    broker = MemoryBroker(partition=partitions.of_output)
    engine = ServedEngine(session, broker=broker, by_time=True, partitions=widest, topics=TopicRule.HARNESS)
    session.config = Config.of({_SHARED_PUSH: True, **session.config.overrides})
    register_topics(session, case)

    def send(records: Sequence[Record]) -> None:
        for record in records:
            broker.produce(record, record.partition)

    with memory_server(engine, ServerSettings(port=0)) as running:
        return _Asking(case=case, session=session, running=running, partitions=partitions, send=send).run(
            lambda: held(broker)
        )


def _run_on_broker(case: model.Case, server: BrokerServer) -> model.Outcome:
    declared, named = declared_partitions(case.topics), named_partitions(case.inputs)
    partitions = Partitions(server.session, declared, named, others=PARTITIONS)
    asking = _Asking(
        case=case,
        session=server.session,
        running=server.running,
        partitions=partitions,
        send=server.send,
        properties={**BASE_PROPERTIES, **case.properties},
    )
    register_topics(server.session, case)
    return asking.run(partial(server.records, of_queries=not isinstance(case, RestCase)))


def _sent(connection: http.client.HTTPConnection, path: str, body: object, accept: str) -> http.client.HTTPResponse:
    connection.request("POST", path, json.dumps(body), {"Accept": accept})
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        raise _RefusedError(json.loads(answer.read()))
    return answer


def _element(line: bytes) -> dict[str, Any] | None:
    """Parse one line of an answer, which is an element of a JSON array.

    Raises:
        _RefusedError: it is an error.
    """
    bare = line.decode().strip().removeprefix("[").rstrip(",")
    if bare.endswith("}]"):
        bare = bare[:-1]
    if bare in ("", "]"):
        return None
    element: dict[str, Any] = json.loads(bare)
    if "errorMessage" in element:
        raise _RefusedError(element["errorMessage"])
    return element


def _readable(elements: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Write the rows of a protobuf answer in protobuf's text format."""
    schema = elements[0]["header"]["protoSchema"]
    message = GetMessageClass(load(schema, {}).at((0,)))
    for element in elements:
        row = element.get("row")
        if row is None:
            yield element
        else:
            data = base64.b64decode(row["protobufBytes"])
            yield {"row": text_format.MessageToString(message.FromString(data))}
