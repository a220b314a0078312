"""Every overload of every function occurs in an accepted statement of a case of ours that expects records."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.load import load_all
from kestrel_sql.errors import EngineError
from kestrel_sql.functions import registry
from kestrel_sql.functions.resolve import Overload
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.session.session import Session

NEVER_CHOSEN = frozenset({"COUNT()"})
"""Overloads that the planner rewrites: COUNT(*) and COUNT() become a count of ROWTIME."""

CASES = Path(__file__).parents[3] / "test-cases"


SOURCE = "CREATE STREAM S (K INT KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Holds the identity of every overload that is chosen."""
    found: set[int] = set()
    choose = registry.choose

    def noted(overloads: Sequence[Overload], arguments: Sequence[Any], span: Any = None) -> Any:
        choice = choose(overloads, arguments, span)
        found.add(id(choice.overload))
        return choice

    monkeypatch.setattr(registry, "choose", noted)
    return found


def test_every_overload_has_a_case(chosen: set[int]) -> None:
    called: set[int] = set()
    for area in ("functions", "aggregates", "headers"):
        for case in load_all(find_files([CASES / area])).cases:
            if case.outputs and case.expected_exception is None:
                called |= of_accepted(case.statements, chosen)
    missing = [
        _text(name, overload)
        for name in FUNCTIONS
        for overload in FUNCTIONS.overloads[name]
        if id(overload) not in called
    ]
    assert set(missing) == NEVER_CHOSEN, "\n".join(missing)


@pytest.mark.parametrize(("selected", "count"), [("ABS(V)", 1), ("ABS(V) + TRUE", 0)])
def test_a_refused_statement_is_no_coverage(chosen: set[int], selected: str, count: int) -> None:
    statement = f"CREATE STREAM O AS SELECT K, {selected} AS X FROM S;"
    assert len(of_accepted((SOURCE, statement), chosen)) == count
    assert len(chosen) == 1


def of_accepted(statements: Sequence[str], chosen: set[int]) -> set[int]:
    """The overloads that the statements choose, up to the first that is refused."""
    session, found = Session(), set[int]()
    with contextlib.suppress(EngineError):
        for statement in statements:
            for parsed in session.parse(statement):
                chosen.clear()
                session.execute(parsed)
                found |= chosen
    return found


def _text(name: str, overload: Overload) -> str:
    return f"{name}({', '.join(map(str, overload.signature.parameters))})"
