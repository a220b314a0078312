"""Runs REST-QTT cases over a socket: each on its own server, with the requests of a client."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from google.protobuf import text_format
from google.protobuf.message_factory import GetMessageClass

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.case_records import input_records
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.drivers.full import FullDriver
from kestrel_qtt.drivers.fused import crashed
from kestrel_qtt.drivers.partitions import Partitions
from kestrel_qtt.drivers.rest.run import answered, session_of
from kestrel_qtt.drivers.topics import register_topics
from kestrel_qtt.drivers.warm.session import open_case_session
from kestrel_qtt.ksqldb.rest_cases import Answer, RestCase
from kestrel_sql.formats.protobuf.schema import load
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served import ServedEngine
from kestrel_sql.server.open import Running, ServerSettings, memory_server
from kestrel_sql.topics.memory import MemoryBroker

_ROWS, _PROTO = "application/vnd.ksql.v1+json", "application/vnd.ksql.v1+protobuf"
_SHARED_PUSH = "ksql.query.push.v2.enabled"
"""ksqlDB's cases expect it to be on."""

_PATIENCE_S = 120.0
_MOMENT_S = 0.02
_QUIET_S = 1.0


class SocketDriver(FullDriver):
    """Runs cases of REST answers on servers, and no others."""

    def run(
        self, cases: Sequence[model.Case], options: RunOptions
    ) -> Iterator[tuple[model.Case, model.Outcome, float]]:
        """Run the cases one by one; each is yielded once with its outcome and its seconds."""
        for case in cases:
            if not isinstance(case, RestCase):
                continue
            started = time.perf_counter()
            try:
                outcome = _run(case)
            except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
                outcome = crashed(error)
            yield case, outcome, time.perf_counter() - started


class _RefusedError(Exception):
    """A request that the server refused; the text is its message, `code` the server's error code."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = str(error["error_code"])


@dataclass(slots=True)
class _Asking:
    """A case that is running against its server."""

    case: RestCase
    engine: ServedEngine
    running: Running
    partitions: Partitions
    answers: list[Answer] = field(default_factory=list)
    proto_answers: list[Answer] = field(default_factory=list)
    fed: bool = False

    def statements(self, text: str) -> None:
        """Send all statements that are not queries in one request, and keep the entities."""
        with closing(self._connection()) as connection:
            answer = _sent(connection, "/ksql", {"ksql": text}, "application/json")
            self.answers += [Answer("admin", (entity,)) for entity in json.loads(answer.read())]
        for parsed in self.engine.session.parse(text):
            self.partitions.declare(parsed.statement)

    def query(self, text: str, expected: int) -> None:
        """Send a query, and keep its answer; a push query is closed once it has returned `expected` elements."""
        self.answers.append(Answer("query", tuple(self._elements(text, _ROWS, expected))))
        if self.case.with_proto:
            elements = tuple(_readable(list(self._elements(text, _PROTO, expected))))
            self.proto_answers.append(Answer("queryProto", elements))

    def feed(self) -> None:
        """Produce the inputs, and wait until all persistent queries have processed them."""
        if self.fed:
            return
        self.fed = True
        for _, record in input_records(self.engine.session, self.case.inputs, self.partitions):
            self.engine.broker.produce(record, record.partition)
        self.running.service.wake()
        deadline = time.monotonic() + _PATIENCE_S
        while any(query.lag and query.state == "RUNNING" for query in self.running.service.figures().queries):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the queries have not processed the inputs within {_PATIENCE_S:.0f} s")
            time.sleep(_MOMENT_S)

    def _elements(self, text: str, accept: str, expected: int) -> Iterator[dict[str, Any]]:
        with closing(self._connection()) as connection:
            if not self.case.late_inputs:
                self.feed()
            answer = _sent(connection, "/query-stream", {"sql": text, "properties": {}}, accept)
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
                if "EMIT" in text.upper() and count == expected - 1:
                    time.sleep(_QUIET_S)
                    self._close(query_id)

    def _close(self, query_id: str) -> None:
        with closing(self._connection()) as connection:
            connection.request("POST", "/close-query", json.dumps({"queryId": query_id}))
            connection.getresponse().read()

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.running.url)
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE_S)


def _run(case: RestCase) -> model.Outcome:
    session, partitions, widest = session_of(case)
    broker = MemoryBroker(partition=partitions.of_output)
    engine = ServedEngine(session, broker=broker, by_time=True, open_spark=open_case_session, partitions=widest)
    session.config = Config.of({_SHARED_PUSH: True, **session.config.overrides})
    register_topics(session, case)
    with memory_server(engine, ServerSettings(port=0)) as running:
        asking = _Asking(case, engine, running, partitions)
        texts = case.statements
        first = next((at for at, text in enumerate(texts) if text.startswith("SELECT ")), len(texts))
        at = 0
        try:
            asking.statements("\n".join(texts[:first]))
            for at, text in enumerate(texts[first:], start=first):
                wanted = [each["query"] for each in case.responses if "query" in each]
                expected = wanted[at - first] if at - first < len(wanted) else []
                asking.query(text, len(expected) if isinstance(expected, list) else 0)
            asking.feed()
        except _RefusedError as error:
            return model.Rejected(message=str(error), statement_index=at, error_code=error.code)
        return answered(engine.session, engine.broker, (*asking.answers, *asking.proto_answers))


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
