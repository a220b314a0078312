"""Table functions: they return a list of rows for one row."""

from __future__ import annotations

from typing import Any

from kestrel_sql.errors import QueryError
from kestrel_sql.functions.declaration import tabular

_CUBE_COLUMNS = 20


@tabular("(list ARRAY<T>) -> T", "(input ARRAY<DECIMAL(p,s)>) -> DECIMAL(p,s)", display_name="explode")
def explode(items: list[object] | None) -> list[object] | None:
    """Return one row for each element, including NULL elements; a NULL array gives no rows.

    Example: EXPLODE(ARRAY[1, NULL]) -> 1, NULL
    """
    return items


@tabular("(columns ARRAY<T>) -> ARRAY<T>", display_name="cube_explode")
def cube_explode(columns: list[object] | None) -> list[list[object]]:
    """Return all combinations of the columns and NULL, from all NULL to all present, each combination once.

    More than 20 columns are an error.

    Example: CUBE_EXPLODE(ARRAY[1, 2]) -> ARRAY[NULL, NULL], ARRAY[NULL, 2], ARRAY[1, NULL], ARRAY[1, 2]
    """
    if columns is None:
        return []
    if len(columns) > _CUBE_COLUMNS:
        raise QueryError(f"CUBE_EXPLODE takes at most {_CUBE_COLUMNS} columns, got {len(columns)}")
    rows: list[list[Any]] = [[]]
    for column in columns:
        choices = (None,) if column is None else (None, column)
        rows = [[*row, choice] for row in rows for choice in choices]
    return rows
