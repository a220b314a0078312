"""Functions that handle NULL, and AS_VALUE."""

from __future__ import annotations

from typing import Any

from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.functions.values.equality import equality_key


@scalar("(first T, others T...) -> T", nulls=Nulls.BODY)
def coalesce(first: Any, *others: Any) -> Any:
    """Return the first argument that is not NULL; all arguments have one type.

    Example: COALESCE(CAST(NULL AS STRING), 'b', 'c') -> 'b'
    """
    for value in (first, *others):
        if value is not None:
            return value
    return None


@scalar("(expression T, altValue T) -> T", nulls=Nulls.BODY)
def ifnull(value: Any, fallback: Any) -> Any:
    """Return `expression`, or `altValue` if it is NULL.

    Example: IFNULL(CAST(NULL AS INT), 3) -> 3
    """
    return fallback if value is None else value


@scalar("(expr1 T, expr2 T) -> T", nulls=Nulls.BODY)
def nullif(value: Any, unwanted: Any) -> Any:
    """Return NULL if the arguments are equal, else `expr1`.

    Example: NULLIF('n/a', 'n/a') -> NULL
    """
    return None if equality_key(value) == equality_key(unwanted) else value


@scalar("(keyColumn T) -> T", nulls=Nulls.BODY)
def as_value(column: Any) -> Any:
    """Return `keyColumn` unchanged; in a projection this copies a key column into the value.

    Example: AS_VALUE(7) -> 7
    """
    return column
