"""Queries that failed: which of them RESUME lets go on."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import StatementError
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.session.session import Session

TEXT = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM a AS SELECT * FROM s;
CREATE STREAM b AS SELECT * FROM s;
"""


def engine_of(text: str) -> MemoryEngine:
    engine = MemoryEngine(Session())
    tell(engine, text)
    return engine


def tell(engine: MemoryEngine, text: str) -> None:
    for parsed in engine.session.parse(text):
        engine.execute(parsed)


@pytest.mark.rules("L5.16")
def test_resume_starts_what_the_system_stopped_and_says_what_would_fail_again() -> None:
    engine = engine_of(TEXT)
    for name, is_of_user in (("CSAS_A_0", False), ("CSAS_B_1", True)):
        running = engine.queries.find(name)
        assert running is not None
        running.fail(f"{name} is broken", is_of_user=is_of_user)
    assert engine.queries.errors() == {"CSAS_A_0": "CSAS_A_0 is broken", "CSAS_B_1": "CSAS_B_1 is broken"}
    with pytest.raises(
        StatementError, match="CSAS_B_1 was not resumed, because it would fail again: CSAS_B_1 is broken"
    ):
        tell(engine, "RESUME ALL;")
    assert engine.queries.errors() == {"CSAS_B_1": "CSAS_B_1 is broken"}
    tell(engine, "RESUME CSAS_A_0; TERMINATE CSAS_B_1; RESUME ALL;")
    assert engine.queries.errors() == {}
