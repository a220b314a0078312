"""The small changes that mutation testing makes to one node of a statement."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TypeVar

from msgspec.structs import replace

from kestrel_sql.functions.registry import Registry
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s

T = TypeVar("T")

_COMPARISONS = {
    e.ComparisonOp.EQUAL: (e.ComparisonOp.NOT_EQUAL,),
    e.ComparisonOp.NOT_EQUAL: (e.ComparisonOp.EQUAL,),
    e.ComparisonOp.LESS_THAN: (e.ComparisonOp.LESS_THAN_OR_EQUAL, e.ComparisonOp.GREATER_THAN_OR_EQUAL),
    e.ComparisonOp.LESS_THAN_OR_EQUAL: (e.ComparisonOp.LESS_THAN, e.ComparisonOp.GREATER_THAN),
    e.ComparisonOp.GREATER_THAN: (e.ComparisonOp.GREATER_THAN_OR_EQUAL, e.ComparisonOp.LESS_THAN_OR_EQUAL),
    e.ComparisonOp.GREATER_THAN_OR_EQUAL: (e.ComparisonOp.GREATER_THAN, e.ComparisonOp.LESS_THAN),
    e.ComparisonOp.IS_DISTINCT_FROM: (e.ComparisonOp.IS_NOT_DISTINCT_FROM,),
    e.ComparisonOp.IS_NOT_DISTINCT_FROM: (e.ComparisonOp.IS_DISTINCT_FROM,),
}
_ARITHMETIC = {
    e.ArithmeticOp.ADD: e.ArithmeticOp.SUBTRACT,
    e.ArithmeticOp.SUBTRACT: e.ArithmeticOp.ADD,
    e.ArithmeticOp.MULTIPLY: e.ArithmeticOp.DIVIDE,
    e.ArithmeticOp.DIVIDE: e.ArithmeticOp.MULTIPLY,
    e.ArithmeticOp.MODULUS: e.ArithmeticOp.MULTIPLY,
}
_LOGICAL = {e.LogicalOp.AND: e.LogicalOp.OR, e.LogicalOp.OR: e.LogicalOp.AND}
_JOINS = {
    s.JoinType.INNER: (s.JoinType.LEFT,),
    s.JoinType.LEFT: (s.JoinType.INNER,),
    s.JoinType.RIGHT: (s.JoinType.INNER,),
    s.JoinType.OUTER: (s.JoinType.LEFT, s.JoinType.RIGHT),
}
_FUNCTIONS = {
    "MIN": "MAX",
    "MAX": "MIN",
    "SUM": "MAX",
    "AVG": "MAX",
    "COUNT": "COUNT_DISTINCT",
    "COUNT_DISTINCT": "COUNT",
    "EARLIEST_BY_OFFSET": "LATEST_BY_OFFSET",
    "LATEST_BY_OFFSET": "EARLIEST_BY_OFFSET",
    "COLLECT_LIST": "COLLECT_SET",
    "COLLECT_SET": "COLLECT_LIST",
    "TOPK": "TOPKDISTINCT",
    "TOPKDISTINCT": "TOPK",
    "UCASE": "LCASE",
    "LCASE": "UCASE",
    "CEIL": "FLOOR",
    "FLOOR": "CEIL",
    "LPAD": "RPAD",
    "RPAD": "LPAD",
    "GREATEST": "LEAST",
    "LEAST": "GREATEST",
}


def changes(node: e.Node, functions: Registry) -> Iterator[e.Node]:
    """Yield the changed forms of one node; its children are not touched unless the node drops or swaps them."""
    match node:
        case e.FunctionCall():
            yield from _of_call(node, functions)
        case s.Query():
            yield from _of_query(node)
        case s.TimeSpan(value):
            yield replace(node, value=value + 1)
            if value > 1:
                yield replace(node, value=value - 1)
        case s.TumblingWindow() | s.HoppingWindow() | s.SessionWindow() if node.grace is not None:
            yield replace(node, grace=None)
        case s.Join():
            yield from (replace(node, type=other) for other in _JOINS[node.type])
        case e.Case():
            if len(node.branches) > 1:
                yield from (replace(node, branches=fewer) for fewer in one_less(node.branches))
            if node.default is not None:
                yield replace(node, default=None)
        case _:
            yield from _of_literal(node)
            yield from _of_operator(node)


def one_less(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """Yield the items without each of them in turn."""
    return (items[:index] + items[index + 1 :] for index in range(len(items)))


def _of_call(node: e.FunctionCall, functions: Registry) -> Iterator[e.Node]:
    other = _FUNCTIONS.get(node.name)
    # COUNT(*) has no argument, which COUNT_DISTINCT needs.
    if other is not None and node.arguments:
        yield replace(node, name=other)
    if node.arguments and not functions.is_aggregate(node.name) and not functions.is_table_function(node.name):
        yield from (argument for argument in node.arguments if not isinstance(argument, e.Lambda | e.IntervalUnit))


def _of_literal(node: e.Node) -> Iterator[e.Node]:
    match node:
        case e.BooleanLiteral(value):
            yield replace(node, value=not value)
        case e.IntegerLiteral() | e.LongLiteral():
            yield replace(node, value=node.value + 1)
        case e.DoubleLiteral(value):
            yield replace(node, value=value + 1)
        case e.DecimalLiteral(value):
            # One in the last digit, so that the literal keeps its type.
            yield replace(node, value=value + Decimal((0, (1,), int(value.as_tuple().exponent))))
        case e.StringLiteral(value):
            yield replace(node, value="" if value else "mutant")
        case _:
            pass


def _of_operator(node: e.Node) -> Iterator[e.Node]:
    match node:
        case e.Comparison():
            yield from (replace(node, op=op) for op in _COMPARISONS[node.op])
        case e.Arithmetic():
            yield replace(node, op=_ARITHMETIC[node.op])
        case e.Logical():
            yield from (replace(node, op=_LOGICAL[node.op]), node.left, node.right)
        case e.Not(operand) | e.Negate(operand):
            yield operand
        case e.IsNull(operand):
            yield e.IsNotNull(operand)
        case e.IsNotNull(operand):
            yield e.IsNull(operand)
        case e.Between():
            yield _range(node, e.ComparisonOp.GREATER_THAN, e.ComparisonOp.LESS_THAN_OR_EQUAL)
            yield _range(node, e.ComparisonOp.GREATER_THAN_OR_EQUAL, e.ComparisonOp.LESS_THAN)
        case e.InList() if len(node.items) > 1:
            yield from (replace(node, items=fewer) for fewer in one_less(node.items))
        case e.Like():
            yield e.Not(node)
        case _:
            pass


def _range(node: e.Between, lower: e.ComparisonOp, upper: e.ComparisonOp) -> e.Node:
    return e.Logical(
        e.LogicalOp.AND, e.Comparison(lower, node.operand, node.lower), e.Comparison(upper, node.operand, node.upper)
    )


def _of_query(node: s.Query) -> Iterator[e.Node]:
    if node.where is not None:
        yield replace(node, where=None)
    if node.having is not None:
        yield replace(node, having=None)
    if node.group_by is not None and len(node.group_by) > 1:
        yield from (replace(node, group_by=fewer) for fewer in one_less(node.group_by))
    if node.partition_by is not None:
        yield replace(node, partition_by=None)
    if node.window is not None and node.group_by is not None:
        yield replace(node, emit=s.Emit.CHANGES if node.emit is s.Emit.FINAL else s.Emit.FINAL)
