"""Checks the properties of a case."""

from __future__ import annotations

from kestrel_qtt.cases.model import Case, Crashed
from kestrel_sql.errors import PropertyError
from kestrel_sql.planner.config import check_property
from kestrel_sql.session.session import properties_config

_OF_THE_HARNESS = frozenset({"use.exact.numeric.comparison"})


def crashed_config(case: Case) -> Crashed | None:
    """Say which property of a case the engine does not take; ksqlDB's own cases may have any (rule Q7.1)."""
    if case.tolerant:
        return None
    for name, value in properties_config(dict(case.properties)).overrides.items():
        if name not in _OF_THE_HARNESS:
            try:
                check_property(name, value)
            except PropertyError as error:
                return Crashed(f"properties: {error.render()}")
    return None
