"""Expressions over one row: a batch of one, whose failure is an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kestrel_sql.expressions.columns import Columns, Evaluate, Failures
from kestrel_sql.expressions.compiler import Options, compile_expression, portable
from kestrel_sql.functions.bind.nodes import Bound


def value_of(evaluate: Evaluate, row: Mapping[str, Any]) -> Any:
    """Evaluate a compiled expression over a row by column.

    Raises:
        Exception: what the expression fails with.
    """
    failures: Failures = {}
    (value,) = evaluate(Columns({name: [value] for name, value in row.items()}, 1), failures)
    if failures:
        raise failures[0]
    return value


class RowExpression:
    """A Python function of the columns that an expression refers to.

    A copy in another process compiles it anew: compiled expressions do not pickle.
    """

    __slots__ = ("_evaluate", "bound", "columns", "options")

    def __init__(self, bound: Bound, columns: tuple[str, ...], options: Options) -> None:
        """Take an expression over `columns`.

        Raises:
            UnsupportedError: a function in the expression runs as a Spark expression only.
        """
        self.bound, self.columns, self.options = portable(bound), columns, options
        self._evaluate = compile_expression(bound, options)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowExpression, (self.bound, self.columns, self.options)

    def __repr__(self) -> str:
        return f"RowExpression({self.bound!r}, {self.columns!r}, {self.options!r})"

    def __call__(self, *values: Any) -> Any:
        """Evaluate the expression."""
        return value_of(self._evaluate, dict(zip(self.columns, values, strict=True)))
