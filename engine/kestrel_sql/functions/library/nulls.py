"""Functions that handle NULL, and AS_VALUE."""

from __future__ import annotations

from typing import TypeVar

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.functions.values.equality import equality_key

T = TypeVar("T")


def _coalesce_columns(*arrays: ArrowArray) -> ArrowArray:
    return late.pc.coalesce(*arrays)


@scalar("(first T, others T...) -> T", nulls=Nulls.BODY, columns=_coalesce_columns)
def coalesce(first: T | None, *others: T | None) -> T | None:
    """Return the first argument that is not NULL; all arguments have one type.

    Example: COALESCE(CAST(NULL AS STRING), 'b', 'c') -> 'b'
    """
    for value in (first, *others):
        if value is not None:
            return value
    return None


@scalar("(expression T, altValue T) -> T", nulls=Nulls.BODY, columns=_coalesce_columns)
def ifnull(value: T | None, fallback: T | None) -> T | None:
    """Return `expression`, or `altValue` if it is NULL.

    Example: IFNULL(CAST(NULL AS INT), 3) -> 3
    """
    return fallback if value is None else value


def _nullif_columns(array: ArrowArray, unwanted: ArrowArray) -> ArrowArray | None:
    kind = array.type
    if kind not in (late.pa.int32(), late.pa.int64(), late.pa.string(), late.pa.bool_()):
        return None
    return late.pc.if_else(late.numbers.equal(array, unwanted), late.pa.scalar(None, kind), array)


@scalar("(expr1 T, expr2 T) -> T", nulls=Nulls.BODY, columns=_nullif_columns)
def nullif(value: T | None, unwanted: T | None) -> T | None:
    """Return NULL if the arguments are equal, else `expr1`.

    Example: NULLIF('n/a', 'n/a') -> NULL
    """
    return None if equality_key(value) == equality_key(unwanted) else value


@scalar("(keyColumn T) -> T", nulls=Nulls.BODY, columns=lambda array: array)
def as_value(column: T) -> T:
    """Return `keyColumn` unchanged; in a projection this copies a key column into the value.

    Example: AS_VALUE(7) -> 7
    """
    return column
