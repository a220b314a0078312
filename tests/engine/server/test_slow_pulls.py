"""Pull queries that take long hold up nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event, Semaphore

import pytest

from kestrel_sql.admin.answer import Answer
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.queries.transient import TransientQuery
from kestrel_sql.server.open import ServerSettings, memory_server
from kestrel_sql.session.session import Session
from tests.engine.server.servers import http, ksql

_SLOW = 10
DDL = """
    CREATE STREAM s (id INT KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
    CREATE TABLE slow AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
    CREATE TABLE fast AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
"""


@dataclass(slots=True)
class Slow(ServedEngine):
    """An engine that answers for one table only once it may."""

    may: Event = field(default_factory=Event)
    asked: Semaphore = field(default_factory=lambda: Semaphore(0))

    def answer(self, planned: TransientQuery, config: Config, since: int = 0) -> Answer:
        if planned.source == "SLOW":
            self.asked.release()
            self.may.wait(60)
        return ServedEngine.answer(self, planned, config, since)


@pytest.fixture
def engine() -> Slow:
    return Slow(Session(config=Config.of({})))


@pytest.fixture
def url(engine: Slow) -> Iterator[str]:
    with memory_server(engine, ServerSettings(port=0)) as running:
        assert ksql(running.url, DDL).status_code == 200
        yield running.url


@pytest.mark.rules("R14.5")
def test_slow_pull_queries_hold_up_nothing_else(engine: Slow, url: str) -> None:
    def pull(table: str) -> int:
        return http.post(f"{url}/query", json={"ksql": f"SELECT * FROM {table} WHERE id = 1;"}, timeout=30).status_code

    with ThreadPoolExecutor(_SLOW) as clients:
        slow = [clients.submit(pull, "slow") for _ in range(_SLOW)]
        try:
            for _ in range(_SLOW):
                assert engine.asked.acquire(timeout=30)
            assert pull("fast") == 200
            assert http.get(f"{url}/info", timeout=5).status_code == 200
            assert ksql(url, "CREATE STREAM t AS SELECT * FROM s;").status_code == 200
        finally:
            engine.may.set()
        assert [each.result() for each in slow] == [200] * _SLOW
