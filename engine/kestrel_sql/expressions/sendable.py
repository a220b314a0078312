"""Expressions that can be sent to another process, which compiles them when it first needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.expressions.columns import Column, Columns, Evaluate, Failures
from kestrel_sql.expressions.compiler import Columnar, Options, compile_expression, tabular_body
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.values.casts import unless_null
from kestrel_sql.java.numbers import wrap_integer
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Map, SqlType, Struct


class Compiled:
    """A compiled expression; a copy in another process compiles it anew."""

    __slots__ = ("_evaluate", "_written", "bound", "options")

    def __init__(self, bound: Bound, options: Options) -> None:
        """Compile.

        Raises:
            UnsupportedError: the expression has no value.
        """
        self.bound, self.options = bound, options
        self._evaluate: Evaluate = compile_expression(bound, options)
        self._written = _written(bound.type)

    def __reduce__(self) -> tuple[object, ...]:
        return Compiled, (self.bound, self.options)

    @property
    def has_columns(self) -> bool:
        """Whether the expression and all its parts have column bodies."""
        return isinstance(self._evaluate, Columnar)

    def arrays(self, columns: Columns, wanted: SqlType | None = None) -> ArrowArray | None:
        """Evaluate the expression over arrays; None if it has to be by values, or `wanted` takes no such array."""
        found = self._evaluate.arrays(columns) if isinstance(self._evaluate, Columnar) else None
        return None if found is None else late.types.in_form_of(found, wanted or self.bound.type)

    def __call__(self, columns: Columns, failures: Failures) -> Column:
        """Evaluate the expression."""
        found = self._evaluate(columns, failures)
        return found if self._written is None else list(map(self._written, found))


def _written(of: SqlType | None) -> Callable[..., object] | None:
    """Return what makes of a value the one that is written: ksqlDB computes with days of any size, and cuts it then."""
    match of:
        case t.DATE:
            return unless_null(lambda day: wrap_integer(day, 32))
        case Array(inner) | Map(_, inner):
            item = _written(inner)
            if item is None:
                return None
            if isinstance(of, Array):
                return unless_null(lambda items: [item(each) for each in items])
            return unless_null(lambda entries: {key: item(each) for key, each in entries.items()})
        case Struct(fields):
            parts = [(field.name, part) for field in fields if (part := _written(field.type)) is not None]
            return unless_null(lambda row: row | {name: part(row[name]) for name, part in parts}) if parts else None
        case _:
            return None


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

    def __reduce__(self) -> tuple[object, ...]:
        return TableCall, (self.bound, self.settings)

    def __call__(self, *arguments: object) -> object:
        """Return the list for one row."""
        if any(needed and value is None for needed, value in zip(self.bound.required, arguments, strict=False)):
            raise ValueError("an argument is NULL")
        return self._body(*arguments)
