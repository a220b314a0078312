"""An engine in memory for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kestrel_sql.admin.answer import Answer
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.execution import Carrier, ProcessCarrier
from kestrel_sql.session.session import Session


@contextmanager
def engine_with(setup: str, carrier: Carrier | None = None) -> Iterator[MemoryEngine]:
    """An engine that has executed `setup`, reads from the earliest offset, and whose clock is always at 1000 ms."""
    made = MemoryEngine(
        Session(config=Config.of({"auto.offset.reset": "earliest"})),
        carrier=carrier or ProcessCarrier(),
        now=lambda: 1000,
    )
    tell(made, setup)
    yield made
    made.close()


def tell(engine: MemoryEngine, text: str) -> Answer:
    """Execute statements, and return the answer of the last one."""
    answer = Answer()
    for parsed in engine.session.parse(text):
        answer = engine.execute(parsed)
    return answer
