"""Builds Spark's higher-order functions, and an equality that also compares maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from kestrel_sql.functions.library.spark_sql.expressions import (
    Tree,
    call,
    cast,
    if_,
    is_null,
    not_,
    null,
    number,
    op,
    text,
)
from kestrel_sql.types.sql_types import DOUBLE, Array, Map, SqlType, Struct

ITEM, OTHER, AT, ENTRY, STATE = "item__", "other__", "at__", "entry__", "state__"
"""Parameter names of our own lambdas; a call's arguments use only names that its user chose."""


def lambda_(parameters: Sequence[str], body: Tree) -> Tree:
    """Build a lambda."""
    return exp.Lambda(this=body, expressions=[name(parameter) for parameter in parameters])


def name(parameter: str) -> Tree:
    """Refer to a lambda parameter."""
    return exp.to_identifier(parameter, quoted=True)


def part(tree: Tree, field: str) -> Tree:
    """Access a field of a struct."""
    return exp.Dot(this=tree, expression=exp.to_identifier(field, quoted=True))


def typed_like(tree: Tree, other: Tree) -> Tree:
    """Return `tree`, or a NULL of the type of `other` if it is an untyped NULL.

    Spark's functions of two collections need equal types.
    """
    return if_(exp.false(), other, null()) if isinstance(tree, exp.Null) else tree


def bind(parameters: Sequence[str], values: Sequence[Tree], body: Tree) -> Tree:
    """Evaluate `body` with one or two parameters bound to `values`."""
    items = [call("array", value) for value in values]
    return call(
        "element_at", call("transform" if len(items) == 1 else "zip_with", *items, lambda_(parameters, body)), number(1)
    )


def any_item(items: Tree, parameters: Sequence[str], condition: Tree) -> Tree:
    """Test if a condition, never NULL itself, holds for an item; false for a NULL array, never NULL."""
    return call("coalesce", call("exists", items, lambda_(parameters, condition)), exp.false())


def null_safe_equal(left: Tree, right: Tree) -> Tree:
    """Test if both are equal or both NULL; never NULL."""
    return op(exp.NullSafeEQ, left, right)


def equals_differently(sql_type: SqlType | None) -> bool:
    """Whether Spark compares values of the type otherwise than Java's `equals`: MAP not at all, and -0.0 is 0.0."""
    match sql_type:
        case Map():
            return True
        case Array(item):
            return equals_differently(item)
        case Struct(fields):
            return any(equals_differently(field.type) for field in fields)
        case _:
            return sql_type == DOUBLE


def comparable(value: Tree, sql_type: SqlType | None) -> Tree:
    """Turn a value into one that is equal if Java's `equals` says so.

    Maps become sorted arrays of entries, doubles strings.
    """
    if not equals_differently(sql_type) or isinstance(value, exp.Null):
        return value
    match sql_type:
        case Map(_, inner):
            entry = name(ENTRY)
            pair = call("struct", part(entry, "key"), comparable(part(entry, "value"), inner))
            return call("array_sort", call("transform", call("map_entries", value), lambda_([ENTRY], pair)))
        case Array(inner):
            return call("transform", value, lambda_([ITEM], comparable(name(ITEM), inner)))
        case Struct(fields):
            parts = [tree for f in fields for tree in (text(f.name), comparable(part(value, f.name), f.type))]
            return if_(is_null(value), null(), call("named_struct", *parts))
        case _:
            return cast(value, "STRING") if sql_type == DOUBLE else value


def contains(items: Tree, wanted: Tree, item_type: SqlType | None) -> Tree:
    """Test if an item equals `wanted`; NULL equals NULL. Never NULL."""
    return any_item(items, [OTHER], null_safe_equal(comparable(name(OTHER), item_type), comparable(wanted, item_type)))


def keep(items: Tree, item_type: SqlType | None, condition: Callable[[Tree], Tree]) -> Tree:
    """Return the first of each group of equal items, if it meets the condition; evaluates `items` twice."""
    earlier = call("slice", items, number(1), name(AT))
    first = not_(contains(earlier, name(ITEM), item_type))
    return call("filter", items, lambda_([ITEM, AT], op(exp.And, first, condition(name(ITEM)))))
