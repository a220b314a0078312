"""Evaluates a whole expression in Python, as a function of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.interpreter.evaluate import Values, evaluate, interpretable


@dataclass(frozen=True, slots=True)
class InterpretedExpression:
    """A Python function of the columns that an expression refers to."""

    whole: Bound
    columns: tuple[str, ...]
    values: Values

    @classmethod
    def of(
        cls, whole: Bound, columns: tuple[str, ...], *, nested: bool, preserve_nulls: bool, settings: Mapping[str, str]
    ) -> InterpretedExpression:
        """Prepare an expression over `columns`.

        Raises:
            UnsupportedError: a function in the expression has no Python implementation.
        """
        return cls(interpretable(whole), columns, Values({}, {}, nested, preserve_nulls, dict(settings)))

    def __call__(self, *arguments: Any) -> Any:
        """Evaluate the expression."""
        return evaluate(self.whole, replace(self.values, columns=dict(zip(self.columns, arguments, strict=True))))
