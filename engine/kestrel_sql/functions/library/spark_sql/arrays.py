"""Short hands for Spark's higher-order functions, and equality that also knows maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from kestrel_sql.functions.library.spark_sql.expressions import Tree, call, if_, is_null, not_, null, number, op, text
from kestrel_sql.types.sql_types import Array, Map, SqlType, Struct

ITEM, OTHER, AT, ENTRY, STATE = "item__", "other__", "at__", "entry__", "state__"
"""Names of our own lambda parameters; a call's arguments only use names that its user gave."""


def lambda_(parameters: Sequence[str], body: Tree) -> Tree:
    """A Spark lambda."""
    return exp.Lambda(this=body, expressions=[name(parameter) for parameter in parameters])


def name(parameter: str) -> Tree:
    """A use of a lambda parameter."""
    return exp.to_identifier(parameter, quoted=True)


def part(tree: Tree, field: str) -> Tree:
    """A field of a struct."""
    return exp.Dot(this=tree, expression=exp.to_identifier(field, quoted=True))


def alike(tree: Tree, other: Tree) -> Tree:
    """The tree; if it is an untyped NULL, one of the type of `other`, as Spark's functions of two collections demand."""
    return if_(exp.false(), other, null()) if isinstance(tree, exp.Null) else tree


def bind(parameters: Sequence[str], values: Sequence[Tree], body: Tree) -> Tree:
    """Evaluate `body` with one or two parameters standing for `values`."""
    items = [call("array", value) for value in values]
    return call(
        "element_at", call("transform" if len(items) == 1 else "zip_with", *items, lambda_(parameters, body)), number(1)
    )


def any_item(items: Tree, parameters: Sequence[str], condition: Tree) -> Tree:
    """Whether the condition, which is never NULL, holds for an item; false for a NULL array. Never NULL."""
    return call("coalesce", call("exists", items, lambda_(parameters, condition)), exp.false())


def same(left: Tree, right: Tree) -> Tree:
    """Whether both are equal or both NULL; never NULL."""
    return op(exp.NullSafeEQ, left, right)


def has_map(sql_type: SqlType | None) -> bool:
    """Whether a type contains a MAP, for which Spark has no equality."""
    match sql_type:
        case Map():
            return True
        case Array(item):
            return has_map(item)
        case Struct(fields):
            return any(has_map(field.type) for field in fields)
        case _:
            return False


def comparable(value: Tree, sql_type: SqlType | None) -> Tree:
    """A value that is equal to another one where Java's `equals` says so: maps become sorted arrays of entries."""
    if not has_map(sql_type) or isinstance(value, exp.Null):
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
            return value


def contains(items: Tree, wanted: Tree, item_type: SqlType | None) -> Tree:
    """Whether an item equals `wanted`; NULL equals NULL. Never NULL."""
    return any_item(items, [OTHER], same(comparable(name(OTHER), item_type), comparable(wanted, item_type)))


def keep(items: Tree, item_type: SqlType | None, condition: Callable[[Tree], Tree]) -> Tree:
    """The first of each group of equal items that meet the condition; `items` is used twice."""
    earlier = call("slice", items, number(1), name(AT))
    first = not_(contains(earlier, name(ITEM), item_type))
    return call("filter", items, lambda_([ITEM, AT], op(exp.And, first, condition(name(ITEM)))))
