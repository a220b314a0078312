"""Expressions that can be sent to another process, which compiles them when it first needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.expressions.columns import Column, Columns, Evaluate, Failures
from kestrel_sql.expressions.compiler import Options, compile_expression, tabular_body
from kestrel_sql.functions.bind.nodes import Bound


class Compiled:
    """A compiled expression; a copy in another process compiles it anew."""

    __slots__ = ("_evaluate", "bound", "options")

    def __init__(self, bound: Bound, options: Options) -> None:
        """Compile.

        Raises:
            UnsupportedError: the expression has no value.
        """
        self.bound, self.options = bound, options
        self._evaluate: Evaluate = compile_expression(bound, options)

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, (self.bound, self.options)

    def __call__(self, columns: Columns, failures: Failures) -> Column:
        """Evaluate the expression."""
        return self._evaluate(columns, failures)


class TableCall:
    """The body of a table function for one value of each argument; a copy in another process makes it anew."""

    __slots__ = ("_body", "bound", "settings")

    def __init__(self, bound: Bound, settings: Mapping[str, str]) -> None:
        """Find the body.

        Raises:
            UnsupportedError: it is no table function.
        """
        self.bound, self.settings = bound, settings
        self._body: Callable[..., Any] = tabular_body(bound, settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return TableCall, (self.bound, self.settings)

    def __call__(self, *arguments: Any) -> Any:
        """Return the list for one row."""
        if any(needed and value is None for needed, value in zip(self.bound.required, arguments, strict=False)):
            raise ValueError("an argument is NULL")
        return self._body(*arguments)
