"""`kestrel serve` killed again and again, with its checkpoint in a folder and on stores, while clients send statements, rows and queries.

Nothing accepted is lost or done twice. The standby starts while its server still works, as it does for users.

KESTREL_KILLS=100 python -m pytest -m nightly --log-cli-level=INFO tests/kafka/test_serve_kills.py
"""

from __future__ import annotations

import json
import logging
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import httpx
import pytest

from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.helpers import read
from tests.kafka.servers import Server, Servers, eventually
from tests.kafka.stores import KINDS, store_of

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

_log = logging.getLogger(__name__)

KILLS = int(os.environ.get("KESTREL_KILLS", "5"))
_CLIENTS = 2
_LONGEST_S = 4.0
"""How long a server works at most before it is killed: three times of four from its first accepted statement on."""


class Client(threading.Thread):
    """Creates a stream, inserts rows and asks for one, in turns, until its server is gone; keeps what was accepted."""

    def __init__(self, server: Server, number: int) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.number = number
        self.sent: list[int] = []
        self.rows: list[int] = []
        self.streams: list[str] = []

    def run(self) -> None:
        number = 0
        try:
            while True:
                number += 1
                name = f"S_{self.number}_{number}"
                statement = f"CREATE STREAM {name} (a INT) WITH (KAFKA_TOPIC='any', VALUE_FORMAT='JSON', PARTITIONS=1);"
                answer = self.server.ksql(statement)
                assert answer[0]["commandStatus"]["status"] == "SUCCESS", answer
                self.streams.append(name)
                for row in range(20):
                    n = self.number * 1_000_000 + number * 1_000 + row
                    self.sent.append(n)
                    if self.server.ksql(f"INSERT INTO rows (id, n) VALUES ({row}, {n});") == []:
                        self.rows.append(n)
                self.server.query("SELECT * FROM counts WHERE id = 1;")
        except (httpx.TransportError, ValueError):
            return


class Watcher(threading.Thread):
    """Reads a push query until its server is gone, and counts its rows."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.rows = 0

    def run(self) -> None:
        asked = {"sql": "SELECT n FROM rows EMIT CHANGES;", "properties": {}}
        with (
            suppress(httpx.TransportError),
            httpx.stream("POST", f"{self.server.url}/query-stream", json=asked, timeout=180) as answer,
        ):
            for line in answer.iter_lines():
                self.rows += line.startswith("[")


@dataclass(frozen=True, slots=True)
class Kill:
    """The seconds until the standby answered `/info` and a pull query, and the rows that were pushed before."""

    up: float
    pull: float
    pushed: int


def _waits(standby: Server) -> bool:
    return "waiting as its standby" in standby.said()


def _any(clients: list[Client]) -> bool:
    return any(client.streams for client in clients)


def _pushes(watching: Watcher) -> bool:
    return watching.rows > 0


def _answers(server: Server) -> bool:
    asked = {"sql": "SELECT * FROM counts WHERE id = 1;"}
    return httpx.post(f"{server.url}/query-stream", json=asked, timeout=180).status_code == 200


def _kill(server: Server, standby: Server, threads: Sequence[threading.Thread]) -> tuple[float, float]:
    """Kill a server, and return the seconds until its standby answers `/info`, and a pull query."""
    server.end()
    killed = time.monotonic()
    for thread in threads:
        thread.join(60)
        # A client that the kill leaves without an answer is not told that it has none.
        assert not thread.is_alive()
    eventually(standby.is_up, standby)
    up = time.monotonic() - killed
    eventually(partial(_answers, standby), standby)
    return up, time.monotonic() - killed


def _check(servers: Servers, server: Server, clients: Sequence[Client]) -> tuple[int, int]:
    """Check that nothing accepted is lost or done twice; return how many rows and statements were accepted."""
    broker, own = servers.servers, servers.service
    written = [json.loads(value or b"")["N"] for _, _, value, _ in read(broker, f"{own}rows", 2)]
    accepted = [row for client in clients for row in client.rows]
    assert accepted
    # A row whose answer did not come may be there once.
    assert set(accepted) <= set(written) <= {row for client in clients for row in client.sent}
    assert max(Counter(written).values()) == 1
    eventually(lambda: len(read(broker, f"{own}copies", 2)) >= len(written), server)
    copies = [json.loads(value or b"")["N"] for _, _, value, _ in read(broker, f"{own}copies", 2)]
    assert Counter(copies) == Counter(written)
    streams = {each["name"] for each in server.ksql("SHOW STREAMS;")[0]["streams"]}
    accepted_streams = {name for client in clients for name in client.streams}
    assert accepted_streams <= streams
    assert len(streams - accepted_streams - {"ROWS", "COPIES"}) <= KILLS * _CLIENTS
    commands = Counter(key for _, key, _, _ in read(broker, servers.command_topic, 1))
    assert max(commands.values()) == 1
    expected = Counter(row % 1_000 for row in written)
    eventually(lambda: server.query("SELECT c FROM counts WHERE id = 1;") == [[expected[1]]], server)
    rows = {row[0]: row[1] for row in server.query("SELECT id, c FROM counts;")}
    assert rows == dict(expected)
    eventually(lambda: servers.keys() == [len(expected)], server)
    return len(accepted), len(accepted_streams)


@pytest.mark.parametrize("kind", ["folder", *KINDS])
def test_nothing_accepted_is_lost_or_done_twice(kind: str, kafka: KafkaConfig, tmp_path: Path) -> None:
    chance = random.Random(7)
    clients: list[Client] = []
    kills: list[Kill] = []
    with ExitStack() as stack:
        store = None if kind == "folder" else stack.enter_context(store_of(kind, tmp_path))
        servers = Servers(kafka.servers, tmp_path, stack, store)
        own = servers.service
        server = servers.start()
        eventually(server.is_up, server)
        server.ksql(
            f"CREATE STREAM rows (id INT KEY, n BIGINT) WITH (KAFKA_TOPIC='{own}rows', VALUE_FORMAT='JSON',"
            f" PARTITIONS=2);CREATE STREAM copies WITH (KAFKA_TOPIC='{own}copies') AS SELECT id, n FROM rows;CREATE"
            f" TABLE counts WITH (KAFKA_TOPIC='{own}counts') AS SELECT id, COUNT(*) AS c FROM rows GROUP BY id;"
        )
        for turn in range(KILLS):
            following = servers.start()
            eventually(partial(_waits, following), following)
            working = [Client(server, turn * _CLIENTS + number) for number in range(_CLIENTS)]
            watching = Watcher(server)
            clients += working
            for thread in (*working, watching):
                thread.start()
            if turn % 4:
                eventually(partial(_any, working), server)
            if turn % 2:
                eventually(partial(_pushes, watching), server)
            working[0].join(chance.uniform(0.2, _LONGEST_S))
            up, pull = _kill(server, following, (*working, watching))
            kills.append(Kill(up, pull, watching.rows))
            server = following
            accepted = sum(len(each.rows) for each in clients)
            _log.info("kill %d: %d rows accepted so far; %s", turn + 1, accepted, kills[-1])
        # Every second turn waits for a row of a push query.
        assert KILLS == 1 or any(kill.pushed for kill in kills)
        # The same command goes on where nobody waits.
        server.end()
        server = servers.start()
        eventually(server.is_up, server)
        rows, statements = _check(servers, server, clients)
        if store is not None:
            servers.lose()
            eventually(lambda: "another run has taken it (process 7 on other)" in server.said(), server)
    ups, pulls = [kill.up for kill in kills], [kill.pull for kill in kills]
    _log.info(
        "%s: %d kills, %d rows and %d statements accepted, none lost or done twice; %d rows pushed before %d of the kills",
        *(kind, KILLS, rows, statements, sum(kill.pushed for kill in kills), sum(kill.pushed > 0 for kill in kills)),
    )
    for what, seconds in (("/info", ups), ("a pull query", pulls)):
        _log.info("the standby answers %s %.1f s after the kill, %.1f s at most", what, median(seconds), max(seconds))
