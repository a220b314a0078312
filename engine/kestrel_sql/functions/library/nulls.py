"""Functions that handle NULL, and AS_VALUE."""

from __future__ import annotations

from sqlglot import exp

from kestrel_sql.functions.declaration import CallTypes, Nulls, scalar
from kestrel_sql.functions.library.spark_sql.arrays import comparable
from kestrel_sql.functions.library.spark_sql.expressions import Tree, call, if_, null, op


@scalar("(first T, other T...) -> T", nulls=Nulls.BODY)
def coalesce(first: Tree, *others: Tree) -> Tree:
    """Return the first argument that is not NULL; all arguments have one type.

    Example: COALESCE(CAST(NULL AS STRING), 'b', 'c') -> 'b'
    """
    return call("coalesce", first, *others)


@scalar("(value T, fallback T) -> T", nulls=Nulls.BODY)
def ifnull(value: Tree, fallback: Tree) -> Tree:
    """Return `value`, or `fallback` if it is NULL.

    Example: IFNULL(CAST(NULL AS INT), 3) -> 3
    """
    return call("coalesce", value, fallback)


@scalar("(value T, unwanted T) -> T", nulls=Nulls.BODY, with_types=True)
def nullif(types: CallTypes, value: Tree, unwanted: Tree) -> Tree:
    """Return NULL if the arguments are equal, else `value`.

    Example: NULLIF('n/a', 'n/a') -> NULL
    """
    return if_(op(exp.EQ, comparable(value, types.returns), comparable(unwanted, types.returns)), null(), value)


@scalar("(column T) -> T", nulls=Nulls.BODY)
def as_value(column: Tree) -> Tree:
    """Return `column` unchanged; in a projection this copies a key column into the value.

    Example: AS_VALUE(7) -> 7
    """
    return column
