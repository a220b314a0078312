"""Types expressions: gives every node a type, chooses overloads, and makes implicit conversions explicit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import singledispatch
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_sql.errors import TypeMismatchError, UnknownColumnError, UnsupportedError, column_hint
from kestrel_sql.functions.bind import containers, operators
from kestrel_sql.functions.bind.calls import bind_call
from kestrel_sql.functions.bind.common_type import decimal_literal_type
from kestrel_sql.functions.bind.nodes import Bound, parts
from kestrel_sql.functions.bind.own_scales import mark_own_scales
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.sql.format.expressions import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes.chains import along_chains
from kestrel_sql.types import sql_types as t


class _Scope(msgspec.Struct, frozen=True):
    columns: Mapping[str, t.SqlType]
    variables: Mapping[str, t.SqlType | None]
    functions: Registry
    read: dict[str, t.SqlType | None]

    def column(self, name: str) -> t.SqlType | None:
        """Look a column up, and note what the expression depends on."""
        return self.read.setdefault(name, self.columns.get(name))


class _Known(msgspec.Struct, frozen=True):
    bound: Bound
    read: Mapping[str, t.SqlType | None]
    functions: Registry

    def holds(self, expression: e.Expression, scope: Mapping[str, t.SqlType], functions: Registry) -> bool:
        return (
            self.bound.node is expression
            and self.functions is functions
            and all(scope.get(name) == sql_type for name, sql_type in self.read.items())
        )


_KNOWN: dict[int, _Known] = {}
"""The last expressions that were bound, by their ids: equal ones may differ in the digits of a number.

A plan is typed where it is made and where its steps are built, over the same columns.
"""

_MOST_KNOWN = 4096


def bind(
    expression: e.Expression,
    scope: Mapping[str, t.SqlType],
    functions: Registry = FUNCTIONS,
) -> Bound:
    """Type `expression`; `scope` has the types of columns by name.

    A qualified column is looked up as it is written, such as `U.C`, and then by its name alone.

    An implicit conversion becomes a child with a `Cast` node that the expression does not have. A DECIMAL result may
    exceed 38 digits, as in ksqlDB.

    Raises:
        UnknownColumnError: a column or field does not exist.
        FunctionError: a function does not exist, or not for its arguments.
        TypeMismatchError: operand types do not fit (rules L4), or a lambda or interval unit is outside a call.
        UnsupportedError: `CASE x WHEN` or `AT TIME ZONE`, or a part is a MAP whose keys are an ARRAY, MAP or STRUCT.
    """
    known = _KNOWN.get(id(expression))
    if known is not None and known.holds(expression, scope, functions):
        return known.bound
    read: dict[str, t.SqlType | None] = {}
    bound = mark_own_scales(_bind(expression, _Scope(scope, {}, functions, read)))
    _check_keys(bound)
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    _KNOWN[id(expression)] = _Known(bound, read, functions)
    return bound


def _check_keys(bound: Bound) -> None:
    for part in parts(bound):
        if part.type is not None and (refused := _composite_key(part.type)):
            raise UnsupportedError(
                f"{format_expression(part.node)} is a {refused}: the keys of a MAP cannot be an ARRAY, MAP or STRUCT.",
                span=part.node.span,
                hint="cast the keys to STRING",
            )


def _composite_key(sql_type: t.SqlType) -> t.SqlType | None:
    """Return the first MAP in a type whose keys are composite."""
    maps = (part for part in t.parts_of(sql_type) if isinstance(part, t.Map))
    return next((each for each in maps if isinstance(each.key, t.Array | t.Map | t.Struct)), None)


@along_chains
def _bind(node: e.Expression, scope: _Scope) -> Bound:
    if type(node) in _LITERALS:
        return Bound(node, _LITERALS[type(node)])
    if type(node) in _RULES:
        parts_of, rule = _RULES[type(node)]
        return rule(node, tuple(_bind(part, scope) for part in parts_of(node)))
    return _typed(node, scope)


_LITERALS: Mapping[type[e.Node], t.SqlType | None] = {
    e.NullLiteral: None,
    e.BooleanLiteral: t.BOOLEAN,
    e.LongLiteral: t.BIGINT,
    e.DoubleLiteral: t.DOUBLE,
    e.StringLiteral: t.STRING,
}


def _operand(node: e.Not | e.Negate | e.UnaryPlus | e.IsNull | e.IsNotNull | e.Cast) -> tuple[e.Expression, ...]:
    return (node.operand,)


def _sides(node: e.Logical | e.Comparison | e.Arithmetic) -> tuple[e.Expression, ...]:
    return (node.left, node.right)


def _of_case(node: e.Case) -> Iterator[e.Expression]:
    for branch in node.branches:
        yield from (branch.condition, branch.result)
    if node.default is not None:
        yield node.default


def _is_null(node: e.IsNull | e.IsNotNull, operands: tuple[Bound, ...]) -> Bound:
    return Bound(node, t.BOOLEAN, operands)


_RULES: Mapping[
    type[e.Node], tuple[Callable[[Any], Iterable[e.Expression]], Callable[[Any, tuple[Bound, ...]], Bound]]
] = {
    e.Not: (_operand, operators.logical),
    e.Logical: (_sides, operators.logical),
    e.Comparison: (_sides, operators.comparison),
    e.Arithmetic: (_sides, operators.arithmetic),
    e.Negate: (_operand, operators.signed),
    e.UnaryPlus: (_operand, operators.signed),
    e.IsNull: (_operand, _is_null),
    e.IsNotNull: (_operand, _is_null),
    e.Between: (lambda node: (node.operand, node.lower, node.upper), operators.between),
    e.InList: (lambda node: (node.operand, *node.items), containers.in_list),
    e.Like: (lambda node: (node.operand, node.pattern), operators.like),
    e.Case: (_of_case, operators.case),
    e.Cast: (_operand, operators.explicit_cast),
    e.ArrayConstructor: (lambda node: node.items, containers.array),
    e.MapConstructor: (lambda node: (part for entry in node.entries for part in entry), containers.map_),
    e.StructConstructor: (lambda node: (value for _, value in node.fields), containers.struct),
    e.Subscript: (lambda node: (node.base, node.index), containers.subscript),
    e.Dereference: (lambda node: (node.base,), containers.dereference),
}


@singledispatch
def _typed(node: e.Node, scope: _Scope) -> Bound:
    raise TypeError(f"no typing rule for {type(node).__name__}")


@_typed.register
def _(node: e.IntegerLiteral, scope: _Scope) -> Bound:
    return Bound(node, t.INTEGER if -(2**31) <= node.value < 2**31 else t.BIGINT)


@_typed.register
def _(node: e.DecimalLiteral, scope: _Scope) -> Bound:
    return Bound(node, decimal_literal_type(node.value))


@_typed.register
def _(node: e.ColumnRef, scope: _Scope) -> Bound:
    written = None if node.qualifier is None else scope.column(format_expression(node))
    column_type = written or scope.column(node.name)
    if column_type is None:
        raise UnknownColumnError(
            f"Unknown column {node.name}.", span=node.span, hint=column_hint(node.name, scope.columns)
        )
    return Bound(node, column_type)


@_typed.register
def _(node: e.LambdaVariable, scope: _Scope) -> Bound:
    if node.name not in scope.variables:
        raise UnknownColumnError(f"Unknown lambda variable {node.name}.", span=node.span)
    return Bound(node, scope.variables[node.name])


@_typed.register
def _(node: e.FunctionCall, scope: _Scope) -> Bound:
    def bind_inside(expression: e.Expression, variables: Mapping[str, t.SqlType | None]) -> Bound:
        return _bind(expression, replace(scope, variables={**scope.variables, **variables}))

    return bind_call(node, scope.functions, bind_inside)


@_typed.register
def _(node: e.SimpleCase, scope: _Scope) -> Bound:
    raise UnsupportedError(
        "CASE with an operand is not supported.", span=node.span, hint="write CASE WHEN x = … THEN … END"
    )


@_typed.register
def _(node: e.AtTimeZone, scope: _Scope) -> Bound:
    raise UnsupportedError("AT TIME ZONE is not supported.", span=node.span, hint="use CONVERT_TZ")


@_typed.register
def _(node: e.Lambda | e.IntervalUnit, scope: _Scope) -> Bound:
    what = "lambda" if isinstance(node, e.Lambda) else "unit of time"
    raise TypeMismatchError(f"A {what} may only be an argument of a function.", span=node.span)
