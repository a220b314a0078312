"""Expressions over one row or none: a batch of one, whose failure is an exception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kestrel_sql.errors import StatementError
from kestrel_sql.expressions.columns import Columns, Evaluate, Failures
from kestrel_sql.expressions.compiler import Options, compile_expression
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.sql.format.statements import format_expression


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


def evaluate_constants(bounds: Sequence[Bound], settings: Mapping[str, str]) -> list[object]:
    """Return the value of each expression, as the Python value of its type (`kestrel_sql.types.sql_types`).

    Raises:
        StatementError: an expression fails.
    """
    preserve = settings.get("ksql.cast.strings.preserve.nulls", "true").lower() == "true"
    options = Options(preserve_nulls=preserve, settings=settings)
    values: list[object] = []
    for bound in bounds:
        failures: Failures = {}
        (value,) = compile_expression(bound, options)(Columns({}, 1), failures)
        if failures:
            raise StatementError(f"Failed to evaluate: {format_expression(bound.node)}", span=bound.node.span)
        values.append(value)
    return values
