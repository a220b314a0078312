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
from kestrel_sql.sql.nodes.chains import along_chains
from kestrel_sql.sql.nodes.expressions import (
    Arithmetic,
    ArrayConstructor,
    AtTimeZone,
    Between,
    BooleanLiteral,
    Case,
    Cast,
    ColumnRef,
    Comparison,
    DecimalLiteral,
    Dereference,
    DoubleLiteral,
    Expression,
    FunctionCall,
    InList,
    IntegerLiteral,
    IntervalUnit,
    IsNotNull,
    IsNull,
    Lambda,
    LambdaVariable,
    Like,
    Logical,
    LongLiteral,
    MapConstructor,
    Negate,
    Node,
    Not,
    NullLiteral,
    SimpleCase,
    StringLiteral,
    StructConstructor,
    Subscript,
    UnaryPlus,
)
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, Array, Map, SqlType, Struct


@dataclass(frozen=True, slots=True)
class _Scope:
    columns: Mapping[str, SqlType]
    variables: Mapping[str, SqlType | None]
    functions: Registry
    read: dict[str, SqlType | None]

    def column(self, name: str) -> SqlType | None:
        """Look a column up, and note what the expression depends on."""
        return self.read.setdefault(name, self.columns.get(name))


@dataclass(frozen=True, slots=True)
class _Known:
    bound: Bound
    read: Mapping[str, SqlType | None]
    functions: Registry

    def holds(self, expression: Expression, scope: Mapping[str, SqlType], functions: Registry) -> bool:
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
    expression: Expression,
    scope: Mapping[str, SqlType],
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
    read: dict[str, SqlType | None] = {}
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


def _composite_key(sql_type: SqlType) -> SqlType | None:
    """Return the first MAP in a type whose keys are composite."""
    match sql_type:
        case Map(Array() | Map() | Struct(), _):
            return sql_type
        case Array(item) | Map(_, item):
            return _composite_key(item)
        case Struct(fields):
            return next((found for field in fields if (found := _composite_key(field.type))), None)
        case _:
            return None


@along_chains
def _bind(node: Node, scope: _Scope) -> Bound:
    return _typed(node, scope)


@singledispatch
def _typed(node: Node, scope: _Scope) -> Bound:
    raise TypeError(f"no typing rule for {type(node).__name__}")


@_typed.register
def _(node: NullLiteral, scope: _Scope) -> Bound:
    return Bound(node, None)


@_typed.register
def _(node: BooleanLiteral, scope: _Scope) -> Bound:
    return Bound(node, BOOLEAN)


@_typed.register
def _(node: IntegerLiteral, scope: _Scope) -> Bound:
    return Bound(node, INTEGER if -(2**31) <= node.value < 2**31 else BIGINT)


@_typed.register
def _(node: LongLiteral, scope: _Scope) -> Bound:
    return Bound(node, BIGINT)


@_typed.register
def _(node: DecimalLiteral, scope: _Scope) -> Bound:
    return Bound(node, decimal_literal_type(node.value))


@_typed.register
def _(node: DoubleLiteral, scope: _Scope) -> Bound:
    return Bound(node, DOUBLE)


@_typed.register
def _(node: StringLiteral, scope: _Scope) -> Bound:
    return Bound(node, STRING)


@_typed.register
def _(node: ColumnRef, scope: _Scope) -> Bound:
    written = None if node.qualifier is None else scope.column(format_expression(node))
    column_type = written or scope.column(node.name)
    if column_type is None:
        raise UnknownColumnError(
            f"Unknown column {node.name}.", span=node.span, hint=column_hint(node.name, scope.columns)
        )
    return Bound(node, column_type)


@_typed.register
def _(node: LambdaVariable, scope: _Scope) -> Bound:
    if node.name not in scope.variables:
        raise UnknownColumnError(f"Unknown lambda variable {node.name}.", span=node.span)
    return Bound(node, scope.variables[node.name])


@_typed.register
def _(node: Not, scope: _Scope) -> Bound:
    return typing_operators.logical(node, [_bind(node.operand, scope)])


@_typed.register
def _(node: Logical, scope: _Scope) -> Bound:
    return typing_operators.logical(node, [_bind(node.left, scope), _bind(node.right, scope)])


@_typed.register
def _(node: Comparison, scope: _Scope) -> Bound:
    return typing_operators.comparison(node, _bind(node.left, scope), _bind(node.right, scope))


@_typed.register
def _(node: Arithmetic, scope: _Scope) -> Bound:
    return typing_operators.arithmetic(node, _bind(node.left, scope), _bind(node.right, scope))


@_typed.register(Negate)
@_typed.register(UnaryPlus)
def _(node: Negate | UnaryPlus, scope: _Scope) -> Bound:
    return typing_operators.signed(node, _bind(node.operand, scope))


@_typed.register(IsNull)
@_typed.register(IsNotNull)
def _(node: IsNull | IsNotNull, scope: _Scope) -> Bound:
    return Bound(node, BOOLEAN, (_bind(node.operand, scope),))


@_typed.register
def _(node: Between, scope: _Scope) -> Bound:
    return typing_operators.between(
        node, _bind(node.operand, scope), _bind(node.lower, scope), _bind(node.upper, scope)
    )


@_typed.register
def _(node: InList, scope: _Scope) -> Bound:
    return typing_containers.in_list(node, tuple(_bind(item, scope) for item in (node.operand, *node.items)))


@_typed.register
def _(node: Like, scope: _Scope) -> Bound:
    return typing_operators.like(node, _bind(node.operand, scope), _bind(node.pattern, scope))


@_typed.register
def _(node: Case, scope: _Scope) -> Bound:
    parts = [part for branch in node.branches for part in (branch.condition, branch.result)]
    if node.default is not None:
        parts.append(node.default)
    return typing_operators.case(node, tuple(_bind(part, scope) for part in parts))


@_typed.register
def _(node: Cast, scope: _Scope) -> Bound:
    return typing_operators.explicit_cast(node, _bind(node.operand, scope))


@_typed.register
def _(node: ArrayConstructor, scope: _Scope) -> Bound:
    return typing_containers.array(node, tuple(_bind(item, scope) for item in node.items))


@_typed.register
def _(node: MapConstructor, scope: _Scope) -> Bound:
    return typing_containers.map_(node, tuple(_bind(part, scope) for entry in node.entries for part in entry))


@_typed.register
def _(node: StructConstructor, scope: _Scope) -> Bound:
    return typing_containers.struct(node, tuple(_bind(value, scope) for _, value in node.fields))


@_typed.register
def _(node: Subscript, scope: _Scope) -> Bound:
    return typing_containers.subscript(node, _bind(node.base, scope), _bind(node.index, scope))


@_typed.register
def _(node: Dereference, scope: _Scope) -> Bound:
    return typing_containers.dereference(node, _bind(node.base, scope))


@_typed.register
def _(node: FunctionCall, scope: _Scope) -> Bound:
    def bind_inside(expression: Expression, variables: Mapping[str, SqlType | None]) -> Bound:
        return _bind(expression, replace(scope, variables={**scope.variables, **variables}))

    return bind_call(node, scope.functions, bind_inside)


@_typed.register
def _(node: SimpleCase, scope: _Scope) -> Bound:
    raise UnsupportedError(
        "CASE with an operand is not supported.", span=node.span, hint="write CASE WHEN x = … THEN … END"
    )


@_typed.register
def _(node: AtTimeZone, scope: _Scope) -> Bound:
    raise UnsupportedError("AT TIME ZONE is not supported.", span=node.span, hint="use CONVERT_TZ")


@_typed.register(Lambda)
@_typed.register(IntervalUnit)
def _(node: Lambda | IntervalUnit, scope: _Scope) -> Bound:
    what = "lambda" if isinstance(node, Lambda) else "unit of time"
    raise TypeMismatchError(f"A {what} may only be an argument of a function.", span=node.span)
