"""Types expressions: gives every node a type, chooses overloads, and makes implicit conversions explicit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import singledispatch

from kestrel_sql.errors import TypeMismatchError, UnknownColumnError, UnsupportedError, column_hint
from kestrel_sql.functions.bind import containers as typing_containers
from kestrel_sql.functions.bind import operators as typing_operators
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


@dataclass(frozen=True, slots=True)
class _Scope:
    columns: Mapping[str, t.SqlType]
    variables: Mapping[str, t.SqlType | None]
    functions: Registry
    read: dict[str, t.SqlType | None]

    def column(self, name: str) -> t.SqlType | None:
        """Look a column up, and note what the expression depends on."""
        return self.read.setdefault(name, self.columns.get(name))


@dataclass(frozen=True, slots=True)
class _Known:
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
    match sql_type:
        case t.Map(t.Array() | t.Map() | t.Struct(), _):
            return sql_type
        case t.Array(item) | t.Map(_, item):
            return _composite_key(item)
        case t.Struct(fields):
            return next((found for field in fields if (found := _composite_key(field.type))), None)
        case _:
            return None


@along_chains
def _bind(node: e.Node, scope: _Scope) -> Bound:
    return _typed(node, scope)


@singledispatch
def _typed(node: e.Node, scope: _Scope) -> Bound:
    raise TypeError(f"no typing rule for {type(node).__name__}")


@_typed.register
def _(node: e.NullLiteral, scope: _Scope) -> Bound:
    return Bound(node, None)


@_typed.register
def _(node: e.BooleanLiteral, scope: _Scope) -> Bound:
    return Bound(node, t.BOOLEAN)


@_typed.register
def _(node: e.IntegerLiteral, scope: _Scope) -> Bound:
    return Bound(node, t.INTEGER if -(2**31) <= node.value < 2**31 else t.BIGINT)


@_typed.register
def _(node: e.LongLiteral, scope: _Scope) -> Bound:
    return Bound(node, t.BIGINT)


@_typed.register
def _(node: e.DecimalLiteral, scope: _Scope) -> Bound:
    return Bound(node, decimal_literal_type(node.value))


@_typed.register
def _(node: e.DoubleLiteral, scope: _Scope) -> Bound:
    return Bound(node, t.DOUBLE)


@_typed.register
def _(node: e.StringLiteral, scope: _Scope) -> Bound:
    return Bound(node, t.STRING)


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
def _(node: e.Not, scope: _Scope) -> Bound:
    return typing_operators.logical(node, [_bind(node.operand, scope)])


@_typed.register
def _(node: e.Logical, scope: _Scope) -> Bound:
    return typing_operators.logical(node, [_bind(node.left, scope), _bind(node.right, scope)])


@_typed.register
def _(node: e.Comparison, scope: _Scope) -> Bound:
    return typing_operators.comparison(node, _bind(node.left, scope), _bind(node.right, scope))


@_typed.register
def _(node: e.Arithmetic, scope: _Scope) -> Bound:
    return typing_operators.arithmetic(node, _bind(node.left, scope), _bind(node.right, scope))


@_typed.register(e.Negate)
@_typed.register(e.UnaryPlus)
def _(node: e.Negate | e.UnaryPlus, scope: _Scope) -> Bound:
    return typing_operators.signed(node, _bind(node.operand, scope))


@_typed.register(e.IsNull)
@_typed.register(e.IsNotNull)
def _(node: e.IsNull | e.IsNotNull, scope: _Scope) -> Bound:
    return Bound(node, t.BOOLEAN, (_bind(node.operand, scope),))


@_typed.register
def _(node: e.Between, scope: _Scope) -> Bound:
    return typing_operators.between(
        node, _bind(node.operand, scope), _bind(node.lower, scope), _bind(node.upper, scope)
    )


@_typed.register
def _(node: e.InList, scope: _Scope) -> Bound:
    return typing_containers.in_list(node, tuple(_bind(item, scope) for item in (node.operand, *node.items)))


@_typed.register
def _(node: e.Like, scope: _Scope) -> Bound:
    return typing_operators.like(node, _bind(node.operand, scope), _bind(node.pattern, scope))


@_typed.register
def _(node: e.Case, scope: _Scope) -> Bound:
    parts = [part for branch in node.branches for part in (branch.condition, branch.result)]
    if node.default is not None:
        parts.append(node.default)
    return typing_operators.case(node, tuple(_bind(part, scope) for part in parts))


@_typed.register
def _(node: e.Cast, scope: _Scope) -> Bound:
    return typing_operators.explicit_cast(node, _bind(node.operand, scope))


@_typed.register
def _(node: e.ArrayConstructor, scope: _Scope) -> Bound:
    return typing_containers.array(node, tuple(_bind(item, scope) for item in node.items))


@_typed.register
def _(node: e.MapConstructor, scope: _Scope) -> Bound:
    return typing_containers.map_(node, tuple(_bind(part, scope) for entry in node.entries for part in entry))


@_typed.register
def _(node: e.StructConstructor, scope: _Scope) -> Bound:
    return typing_containers.struct(node, tuple(_bind(value, scope) for _, value in node.fields))


@_typed.register
def _(node: e.Subscript, scope: _Scope) -> Bound:
    return typing_containers.subscript(node, _bind(node.base, scope), _bind(node.index, scope))


@_typed.register
def _(node: e.Dereference, scope: _Scope) -> Bound:
    return typing_containers.dereference(node, _bind(node.base, scope))


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


@_typed.register(e.Lambda)
@_typed.register(e.IntervalUnit)
def _(node: e.Lambda | e.IntervalUnit, scope: _Scope) -> Bound:
    what = "lambda" if isinstance(node, e.Lambda) else "unit of time"
    raise TypeMismatchError(f"A {what} may only be an argument of a function.", span=node.span)
