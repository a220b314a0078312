"""Expressions over one row: a batch of one, whose failure is an exception."""

from __future__ import annotations

from collections.abc import Mapping

from kestrel_sql.expressions.columns import Columns, Evaluate, Failures


def value_of(evaluate: Evaluate, row: Mapping[str, object]) -> object:
    """Evaluate a compiled expression over a row by column.

    Raises:
        Exception: what the expression fails with.
    """
    failures: Failures = {}
    (value,) = evaluate(Columns({name: [value] for name, value in row.items()}, 1), failures)
    if failures:
        raise failures[0]
    return value
