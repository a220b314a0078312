"""Every overload of every function occurs in a statement of our cases that can be planned."""

from __future__ import annotations

import contextlib
from pathlib import Path

from kestrel_qtt.load import load
from kestrel_sql.errors import EngineError
from kestrel_sql.functions import registry
from kestrel_sql.functions.resolve import Overload
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.session.session import Session

NEVER_CHOSEN = frozenset({"COUNT()"})
"""Overloads that the planner rewrites: COUNT(*) and COUNT() become a count of ROWTIME."""

CASES = Path(__file__).parents[3] / "test-cases"


def test_every_overload_has_a_case(monkeypatch):
    called: set[int] = set()
    choose = registry.choose

    def recording_choose(overloads, arguments, span=None):
        choice = choose(overloads, arguments, span)
        called.add(id(choice.overload))
        return choice

    monkeypatch.setattr(registry, "choose", recording_choose)
    for area in ("functions", "aggregates", "headers"):
        for path in sorted((CASES / area).iterdir()):
            for case in load(path).cases:
                _plan(case.statements)
    missing = [
        _text(name, overload)
        for name in FUNCTIONS
        for overload in FUNCTIONS.overloads[name]
        if id(overload) not in called
    ]
    assert set(missing) == NEVER_CHOSEN, "\n".join(missing)


def _plan(statements: tuple[str, ...]) -> None:
    session = Session()
    with contextlib.suppress(EngineError):
        for statement in statements:
            for parsed in session.parse(statement):
                session.execute(parsed)


def _text(name: str, overload: Overload) -> str:
    return f"{name}({', '.join(map(str, overload.signature.parameters))})"
