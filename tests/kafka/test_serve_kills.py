"""`kestrel serve` killed again and again while clients send statements and rows.

Nothing accepted is lost or done twice.

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
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.helpers import read
from tests.kafka.servers import Server, Servers, eventually

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

_log = logging.getLogger(__name__)

KILLS = int(os.environ.get("KESTREL_KILLS", "5"))


class Client(threading.Thread):
    """Creates a stream, inserts rows and asks for one, in turns, until its server is gone; keeps what was accepted."""

    def __init__(self, server: Server, turn: int) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.turn = turn
        self.sent: list[int] = []
        self.rows: list[int] = []
        self.streams: list[str] = []

    def run(self) -> None:
        number = 0
        try:
            while True:
                number += 1
                name = f"S_{self.turn}_{number}"
                statement = f"CREATE STREAM {name} (a INT) WITH (KAFKA_TOPIC='any', VALUE_FORMAT='JSON', PARTITIONS=1);"
                answer = self.server.ksql(statement)
                assert answer[0]["commandStatus"]["status"] == "SUCCESS", answer
                self.streams.append(name)
                for row in range(20):
                    n = self.turn * 1_000_000 + number * 1_000 + row
                    self.sent.append(n)
                    if self.server.ksql(f"INSERT INTO rows (id, n) VALUES ({row}, {n});") == []:
                        self.rows.append(n)
                self.server.query("SELECT * FROM counts WHERE id = 1;")
        except (httpx.TransportError, ValueError):
            return


def test_nothing_accepted_is_lost_or_done_twice(kafka: KafkaConfig, tmp_path: Path) -> None:
    chance = random.Random(7)
    clients: list[Client] = []
    takeovers: list[float] = []
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack)
        own = servers.service
        server = servers.start()
        eventually(server.is_up, server)
        server.ksql(
            f"CREATE STREAM rows (id INT KEY, n BIGINT) WITH (KAFKA_TOPIC='{own}rows', VALUE_FORMAT='JSON',"
            f" PARTITIONS=2);CREATE STREAM copies WITH (KAFKA_TOPIC='{own}copies') AS SELECT id, n FROM rows;CREATE"
            f" TABLE counts WITH (KAFKA_TOPIC='{own}counts') AS SELECT id, COUNT(*) AS c FROM rows GROUP BY id;"
        )
        for turn in range(KILLS):
            clients.append(Client(server, turn))
            clients[-1].start()
            clients[-1].join(chance.uniform(1, 12))
            following = servers.start()
            server.end()
            killed = time.monotonic()
            clients[-1].join(60)
            server = following
            eventually(server.is_up, server)
            takeovers.append(time.monotonic() - killed)
        written = [json.loads(value or b"")["N"] for _, _, value, _ in read(kafka.servers, f"{own}rows", 2)]
        accepted = [row for client in clients for row in client.rows]
        assert accepted
        # A row whose answer did not come may be there once.
        assert set(accepted) <= set(written) <= {row for client in clients for row in client.sent}
        assert max(Counter(written).values()) == 1
        eventually(lambda: len(read(kafka.servers, f"{own}copies", 2)) >= len(written), server)
        copies = [json.loads(value or b"")["N"] for _, _, value, _ in read(kafka.servers, f"{own}copies", 2)]
        assert Counter(copies) == Counter(written)
        streams = {each["name"] for each in server.ksql("SHOW STREAMS;")[0]["streams"]}
        accepted_streams = {name for client in clients for name in client.streams}
        assert accepted_streams <= streams
        assert len(streams - accepted_streams - {"ROWS", "COPIES"}) <= KILLS
        commands = Counter(key for _, key, _, _ in read(kafka.servers, servers.command_topic, 1))
        assert max(commands.values()) == 1
        expected = Counter(row % 1_000 for row in written)
        eventually(lambda: server.query("SELECT c FROM counts WHERE id = 1;") == [[expected[1]]], server)
        rows = {row[0]: row[1] for row in server.query("SELECT id, c FROM counts;")}
        assert rows == dict(expected)
    counts = KILLS, len(accepted), len(accepted_streams), max(takeovers)
    _log.info("%d kills: %d rows and %d statements accepted, none lost or done twice; takeover within %.1f s", *counts)
