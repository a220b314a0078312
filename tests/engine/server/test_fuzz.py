"""Mutated requests and damaged connections: the server answers each with its own words, leaks nothing, and goes on."""

from __future__ import annotations

import json
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from kestrel_sql.server.http.app import ENDPOINTS
from kestrel_sql.server.open import Running
from tests.endpoints import examples
from tests.engine.server.servers import http, ksql, sparkless_server
from tests.fuzz import wire

SHARE = 1_500
WHOLE = 100_000

PATHS = ["/ksql/terminate/x", "/status/a/b/c", "/ui/../x"]
PATHS += [each.path for endpoint in ENDPOINTS for each in examples(endpoint) if each.path != "/ksql/terminate"]
BODIES = [
    {"ksql": "LIST STREAMS;", "streamsProperties": {"auto.offset.reset": "earliest"}, "commandSequenceNumber": -1},
    {"ksql": "CREATE STREAM f (id INT KEY, v STRING) WITH (KAFKA_TOPIC='f', VALUE_FORMAT='JSON', PARTITIONS=1);"},
    {"ksql": "INSERT INTO s (id) VALUES (1);", "sessionVariables": {"a": "b"}},
    {"sql": "SELECT * FROM s EMIT CHANGES LIMIT 0;", "properties": {}},
    {"sql": "SELECT id, COUNT(*) FROM s GROUP BY id;"},
    {"queryId": "transient_1"},
    {"ksql": "EXPLAIN SELECT id + 1 FROM s EMIT CHANGES;"},
]
JUNK = [
    None,
    True,
    0,
    -1,
    1e308,
    "",
    "x" * 300,
    [],
    {},
    [[[]]],
    {"a": {"b": 1}},
    "\u0000",
    "\ud83d",
    "';DROP",
    "{}",
    2**70,
]
HEADERS = [
    "application/json",
    "text/html;q=0.1",
    "*/*;q=x",
    "a/b;;;",
    "application/vnd.ksql.v1+protobuf",
    ",,,",
    "\x01",
]


def mutated(rng: random.Random) -> tuple[str, bytes, dict[str, str]]:
    body = dict(rng.choice(BODIES))
    for _ in range(rng.randrange(3)):
        body[rng.choice([*body, "extra"])] = rng.choice(JUNK)  # type: ignore[assignment]
    data = bytearray(json.dumps(body).encode())
    for _ in range(rng.choice([0, 0, 1, 3, 20])):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.randrange(3)] = bytes(rng.randrange(256) for _ in range(rng.randrange(3)))
    path = rng.choice(PATHS)
    if rng.random() < 0.1:
        path += rng.choice(["/", "%00", "?x=%ff", "//", "%2e%2e"])
    headers = {"accept": rng.choice(HEADERS).replace("\x01", "?")} if rng.random() < 0.5 else {}
    return path, bytes(data), headers


def raw(port: int, rng: random.Random) -> bytes:
    """A connection that is no good HTTP/1.1, HTTP/2 or websocket, and what came back; some do not wait for it."""
    pieces = rng.choice(wire.KINDS)(rng)
    received = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.1) as connection:
        for piece in pieces:
            connection.sendall(piece)
            if rng.random() < 0.3:
                received += connection.recv(1 << 20)
        while rng.random() < 0.8 and (piece := connection.recv(1 << 20)):
            received += piece
    return received


def attack(running: Running, count: int, seed: int) -> None:
    rng = random.Random(seed)
    with httpx.Client(timeout=30) as client:
        for number in range(count):
            path, data, headers = mutated(rng)
            method = rng.choice(["POST", "POST", "POST", "GET", "PUT", "HEAD"])
            answer = client.request(method, running.url + path, content=data, headers=headers)
            where = (
                f"request {number} of seed {seed}: {method} {path} {data[:300]!r} gave {answer.status_code}"
                f" {answer.text[:300]}"
            )
            assert answer.status_code < 600, where
            if answer.status_code >= 500:
                assert answer.json()["error_code"] in (50000, 50301), where
                assert "The server failed" not in answer.text, where
            assert "Traceback" not in answer.text, where
            assert "/kestrel_sql/" not in answer.text, where
            if number % 10 == 0:
                assert b"Traceback" not in raw(running.listener.port, rng)


def sockets() -> int:
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        # The server may close it meanwhile.
        with suppress(FileNotFoundError):
            count += "socket:" in os.readlink(entry)
    return count


class Complaints(logging.Handler):
    """What was logged as an error: of the server, or of the event loop about it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.name}: {record.getMessage()}\n{record.exc_text or record.exc_info}")


@contextmanager
def no_complaints() -> Iterator[None]:
    """Fail if something is logged as an error."""
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(complaints)
    assert not complaints.found, complaints.found[:3]


def run(count: int, seed: int) -> None:
    with no_complaints(), sparkless_server() as running:
        ksql(
            running.url,
            "CREATE STREAM s (id INT KEY, v STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);",
        )
        attack(running, 50, seed)
        time.sleep(0.5)
        threads, open_sockets = threading.active_count(), sockets()
        attack(running, count, seed + 1)

        def left() -> list[tuple[int, int]]:
            clients = running.service.figures().push_clients
            return [(threading.active_count(), threads + 8), (sockets(), open_sockets + 2), (clients, 0)]

        deadline = time.monotonic() + 20
        while any(now > most for now, most in left()) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert all(now <= most for now, most in left()), left()
        assert http.get(f"{running.url}/info").status_code == 200


@pytest.mark.rules("R14.3")
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the sockets of a process are counted in /proc")
def test_mutated_requests() -> None:
    run(SHARE, seed=1)


@pytest.mark.nightly
def test_a_hundred_thousand_mutated_requests() -> None:
    run(WHOLE, seed=int(os.environ.get("SEED", "7")))
