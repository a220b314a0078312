"""Servers for tests: in this process, on a free port of the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served import ServedEngine
from kestrel_sql.server.open import Running, ServerSettings, memory_server
from kestrel_sql.session.session import Session


@dataclass(slots=True)
class Sparkless(ServedEngine):
    """An engine that never starts Spark: statements, inserts and errors need none."""

    def start(self) -> None:
        """Start nothing."""

    def advance(self, query_id: str) -> None:
        """Process nothing."""


@contextmanager
def sparkless_server(**settings: Any) -> Iterator[Running]:
    config = Config.of(settings.pop("config", {}))
    with memory_server(Sparkless(Session(config=config)), ServerSettings(port=0, **settings)) as running:
        yield running


@contextmanager
def spark_server(**settings: Any) -> Iterator[Running]:
    config = Config.of(settings.pop("config", {}))
    with memory_server(
        ServedEngine(Session(config=config), by_time=True), ServerSettings(port=0, **settings)
    ) as running:
        yield running


def ksql(url: str, text: str, **more: Any) -> httpx.Response:
    return httpx.post(f"{url}/ksql", json={"ksql": text, **more}, timeout=60)
