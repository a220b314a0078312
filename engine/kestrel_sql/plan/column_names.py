"""Generates names for columns that have none (rules N6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from kestrel_sql.sql.nodes.expressions import ColumnRef, Dereference, Expression
from kestrel_sql.types.schema import Column, Role, Schema
from kestrel_sql.types.sql_types import SqlType

GENERATED_PREFIX = "KSQL_COL"

_NUMBERED = re.compile(r"(.*)_(\d+)")


class AliasGenerator:
    """Generates names that clash neither with the names in use nor with each other."""

    def __init__(self, taken: Iterable[str]) -> None:
        """Reserve the names in use: `X_3` takes number 3 of `X`, a plain name takes number 0."""
        self._taken: dict[str, set[int]] = {}
        for name in taken:
            match = _NUMBERED.fullmatch(name)
            base, number = (match[1], int(match[2])) if match else (name, 0)
            self._taken.setdefault(base, set()).add(number)

    def for_expression(self, expression: Expression) -> str:
        """Name an expression that has no alias: after its last struct field, else `KSQL_COL_n`."""
        if isinstance(expression, Dereference):
            return self.unique(expression.field)
        return f"{GENERATED_PREFIX}_{self._next(GENERATED_PREFIX)}"

    def unique(self, base: str) -> str:
        """Return `base` if it is free, else the first free `base_n`."""
        number = self._next(base)
        return base if number == 0 else f"{base}_{number}"

    def _next(self, base: str) -> int:
        used = self._taken.setdefault(base, set())
        number = 0
        while number in used:
            number += 1
        used.add(number)
        return number


def key_columns(
    expressions: Sequence[Expression], source: Schema, type_of: Callable[[Expression], SqlType]
) -> tuple[Column, ...]:
    """Return one key column per expression; a plain column keeps its name, any other expression gets a new one."""
    names = AliasGenerator(column.name for column in source.columns)
    return tuple(
        Column(e.name if isinstance(e, ColumnRef) else names.for_expression(e), type_of(e), Role.KEY)
        for e in expressions
    )
