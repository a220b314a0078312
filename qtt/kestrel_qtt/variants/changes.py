"""The small changes that mutation testing makes to one node of a statement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import singledispatch

from kestrel_sql.functions.registry import Registry
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s

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
    if isinstance(node, e.FunctionCall):
        yield from _of_call(node, functions)
    else:
        yield from _changes(node)


def _of_call(node: e.FunctionCall, functions: Registry) -> Iterator[e.Node]:
    other = _FUNCTIONS.get(node.name)
    # COUNT(*) has no argument, which COUNT_DISTINCT needs.
    if other is not None and node.arguments:
        yield replace(node, name=other)
    if node.arguments and not functions.is_aggregate(node.name) and not functions.is_table_function(node.name):
        yield from (argument for argument in node.arguments if not isinstance(argument, e.Lambda | e.IntervalUnit))


@singledispatch
def _changes(node: e.Node) -> Iterator[e.Node]:
    return iter(())


@_changes.register
def _(node: e.Comparison) -> Iterator[e.Node]:
    yield from (replace(node, op=op) for op in _COMPARISONS[node.op])


@_changes.register
def _(node: e.Arithmetic) -> Iterator[e.Node]:
    yield replace(node, op=_ARITHMETIC[node.op])


@_changes.register
def _(node: e.Logical) -> Iterator[e.Node]:
    yield replace(node, op=_LOGICAL[node.op])
    yield node.left
    yield node.right


@_changes.register
def _(node: e.Not | e.Negate) -> Iterator[e.Node]:
    yield node.operand


@_changes.register
def _(node: e.IsNull) -> Iterator[e.Node]:
    yield e.IsNotNull(node.operand)


@_changes.register
def _(node: e.IsNotNull) -> Iterator[e.Node]:
    yield e.IsNull(node.operand)


@_changes.register
def _(node: e.Between) -> Iterator[e.Node]:
    yield _range(node, e.ComparisonOp.GREATER_THAN, e.ComparisonOp.LESS_THAN_OR_EQUAL)
    yield _range(node, e.ComparisonOp.GREATER_THAN_OR_EQUAL, e.ComparisonOp.LESS_THAN)


def _range(node: e.Between, lower: e.ComparisonOp, upper: e.ComparisonOp) -> e.Node:
    return e.Logical(
        e.LogicalOp.AND, e.Comparison(lower, node.operand, node.lower), e.Comparison(upper, node.operand, node.upper)
    )


@_changes.register
def _(node: e.InList) -> Iterator[e.Node]:
    if len(node.items) > 1:
        for index in range(len(node.items)):
            yield replace(node, items=node.items[:index] + node.items[index + 1 :])


@_changes.register
def _(node: e.Like) -> Iterator[e.Node]:
    yield e.Not(node)


@_changes.register
def _(node: e.Case) -> Iterator[e.Node]:
    if len(node.branches) > 1:
        for index in range(len(node.branches)):
            yield replace(node, branches=node.branches[:index] + node.branches[index + 1 :])
    if node.default is not None:
        yield replace(node, default=None)


@_changes.register
def _(node: e.BooleanLiteral) -> Iterator[e.Node]:
    yield replace(node, value=not node.value)


@_changes.register
def _(node: e.IntegerLiteral | e.LongLiteral) -> Iterator[e.Node]:
    yield replace(node, value=node.value + 1)


@_changes.register
def _(node: e.DecimalLiteral) -> Iterator[e.Node]:
    # One in the last digit, so that the literal keeps its type.
    yield replace(node, value=node.value + Decimal((0, (1,), int(node.value.as_tuple().exponent))))


@_changes.register
def _(node: e.DoubleLiteral) -> Iterator[e.Node]:
    yield replace(node, value=node.value + 1)


@_changes.register
def _(node: e.StringLiteral) -> Iterator[e.Node]:
    yield replace(node, value="" if node.value else "mutant")


@_changes.register
def _(node: s.TimeSpan) -> Iterator[e.Node]:
    yield replace(node, value=node.value + 1)
    if node.value > 1:
        yield replace(node, value=node.value - 1)


@_changes.register
def _(node: s.TumblingWindow | s.HoppingWindow | s.SessionWindow) -> Iterator[e.Node]:
    if node.grace is not None:
        yield replace(node, grace=None)


@_changes.register
def _(node: s.Join) -> Iterator[e.Node]:
    yield from (replace(node, type=other) for other in _JOINS[node.type])


@_changes.register
def _(node: s.Query) -> Iterator[e.Node]:
    if node.where is not None:
        yield replace(node, where=None)
    if node.having is not None:
        yield replace(node, having=None)
    if node.group_by is not None and len(node.group_by) > 1:
        for index in range(len(node.group_by)):
            yield replace(node, group_by=node.group_by[:index] + node.group_by[index + 1 :])
    if node.partition_by is not None:
        yield replace(node, partition_by=None)
    if node.window is not None and node.group_by is not None:
        yield replace(node, emit=s.Emit.CHANGES if node.emit is s.Emit.FINAL else s.Emit.FINAL)
