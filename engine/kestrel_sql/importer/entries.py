"""The outcome of one statement in a report."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from kestrel_sql.errors import EngineError


class Outcome(StrEnum):
    """Whether a statement runs."""

    RUNS = "runs"
    REFUSED = "refused"
    NOTHING = "nothing to run"


class StatementReport(msgspec.Struct, frozen=True):
    """The outcome of one statement.

    Attributes:
        origin: the key of the command, or the file of the plan.
        statement: the SQL text.
        outcome: whether it runs.
        query: the id of the query that it starts or controls.
        code: the code of the error that refused it.
        reason: why it does not run.
        hint: what to try.
    """

    origin: str
    statement: str
    outcome: Outcome
    query: str | None = None
    code: str | None = None
    reason: str = ""
    hint: str | None = None


def refused(origin: str, statement: str, error: EngineError, query: str | None = None) -> StatementReport:
    """The outcome of a statement that an error refuses."""
    return StatementReport(
        origin, statement, Outcome.REFUSED, query=query, code=error.code, reason=error.message, hint=error.hint
    )
