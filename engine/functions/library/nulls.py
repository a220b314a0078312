"""Null handling, and AS_VALUE."""

from __future__ import annotations

from sqlglot import exp

from engine.functions.declaration import Nulls, scalar
from engine.functions.library.trees import Tree, call, if_, null, op


@scalar("(first T, other T...) -> T", nulls=Nulls.BODY)
def coalesce(first: Tree, *others: Tree) -> Tree:
    """Return the first argument that is not NULL; all arguments have one type.

    Example: COALESCE(CAST(NULL AS STRING), 'b', 'c') -> 'b'
    """
    return call("coalesce", first, *others)


@scalar("(value T, fallback T) -> T", nulls=Nulls.BODY)
def ifnull(value: Tree, fallback: Tree) -> Tree:
    """Return `value`, or `fallback` where it is NULL.

    Example: IFNULL(CAST(NULL AS INT), 3) -> 3
    """
    return call("coalesce", value, fallback)


@scalar("(value T, unwanted T) -> T", nulls=Nulls.BODY)
def nullif(value: Tree, unwanted: Tree) -> Tree:
    """Return NULL where both arguments are equal, else `value`.

    Example: NULLIF('n/a', 'n/a') -> NULL
    """
    return if_(op(exp.EQ, value, unwanted), null(), value)


@scalar("(column T) -> T", nulls=Nulls.BODY)
def as_value(column: Tree) -> Tree:
    """Return `column` itself: in a projection it copies a key column into the value.

    Example: AS_VALUE(7) -> 7
    """
    return column
