"""Evaluates bound expressions over Python values, as `kestrel_sql.spark.compile.expressions` does in Spark.

Spark runs no Python inside a lambda, so a call whose lambda needs a Python function is evaluated here as a whole. Where
ksqlDB's generated Java would throw, a Python exception is raised; the enclosing error scope handles it (rules L4.3).
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.declaration import CallTypes, Nulls, Runs, Scalar
from kestrel_sql.functions.interpreter.casts import cast_value
from kestrel_sql.functions.interpreter.collections import IMPLEMENTATIONS as COLLECTION_IMPLEMENTATIONS
from kestrel_sql.functions.interpreter.equality import as_comparable_numbers
from kestrel_sql.functions.interpreter.operators import compare, compute
from kestrel_sql.functions.interpreter.scalars import IMPLEMENTATIONS as SCALAR_IMPLEMENTATIONS
from kestrel_sql.functions.interpreter.scalars import Implementation
from kestrel_sql.functions.library.text.like import like_pattern
from kestrel_sql.java.numbers import ROUNDING, round_decimal, wrap_integer
from kestrel_sql.java.regex.time_limit import TimeLimitError, check_work
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes.expressions import ComparisonOp
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import can_be_equal
from kestrel_sql.types.sql_types import Decimal, Map, SqlType

IMPLEMENTATIONS: Mapping[str, Implementation] = {**SCALAR_IMPLEMENTATIONS, **COLLECTION_IMPLEMENTATIONS}
"""Python implementations of native functions, by the name of the declared body."""


class NullOperandError(ValueError):
    """An operator that needs a value got NULL."""


@dataclass(frozen=True, slots=True)
class Values:
    """The input of an evaluation: columns, lambda parameters, and the switches of the compiler's `Context`."""

    columns: Mapping[str, Any]
    variables: Mapping[str, Any] = field(default_factory=dict)
    nested: bool = False
    preserve_nulls: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InterpretedBody:
    """A function body that looks up the implementation when it is called: the lookup table is not pickled with it."""

    name: str

    def __call__(self, types: CallTypes, *arguments: Any) -> Any:
        """Call the implementation."""
        return IMPLEMENTATIONS[self.name](types, *arguments)


@dataclass(frozen=True, slots=True)
class InterpretedCall:
    """A Python function of a call's arguments except its lambdas, followed by the columns that its lambdas use."""

    call: Bound
    value_count: int
    columns: tuple[str, ...]
    values: Values

    @classmethod
    def of(
        cls, call: Bound, columns: tuple[str, ...], *, nested: bool, preserve_nulls: bool, settings: Mapping[str, str]
    ) -> InterpretedCall:
        """Prepare a call; `columns` are those that its lambdas use.

        Raises:
            UnsupportedError: a function in the call has no Python implementation.
        """
        children = tuple(
            interpretable(child) if is_lambda_or_unit(child) else Bound(e.NullLiteral(), child.type)
            for child in call.children
        )
        whole = interpretable(replace(call, children=children))
        value_count = sum(not is_lambda_or_unit(child) for child in children)
        return cls(whole, value_count, columns, Values({}, {}, nested, preserve_nulls, dict(settings)))

    def __call__(self, *arguments: Any) -> Any:
        """Evaluate the call."""
        captured = dict(zip(self.columns, arguments[self.value_count :], strict=True))
        values = replace(self.values, columns=captured)
        remaining = iter(arguments[: self.value_count])
        return _apply(
            self.call,
            [evaluate(child, values) if is_lambda_or_unit(child) else next(remaining) for child in self.call.children],
            values,
        )


def is_lambda_or_unit(argument: Bound) -> bool:
    """Whether an argument is a lambda or an interval unit, which cannot be evaluated before the call."""
    return isinstance(argument.node, e.Lambda | e.IntervalUnit)


def needs_interpreter(bound: Bound) -> bool:
    """Whether the expression is a call with a lambda that calls a Python function."""
    return isinstance(bound.node, e.FunctionCall) and any(
        _calls_python(c) for c in bound.children if isinstance(c.node, e.Lambda)
    )


def _calls_python(bound: Bound) -> bool:
    return (
        (isinstance(bound.function, Scalar) and bound.function.runs is Runs.PYTHON)
        or _escapes_computed_pattern(bound)
        or takes_digits(bound)
        or any(map(_calls_python, bound.children))
    )


def _escapes_computed_pattern(bound: Bound) -> bool:
    """Whether Spark takes the pattern of a LIKE from Python (`library.text.like`)."""
    node = bound.node
    return isinstance(node, e.Like) and node.escape is not None and not isinstance(node.pattern, e.StringLiteral)


def takes_digits(bound: Bound) -> bool:
    """Whether an operator makes a DECIMAL of a DOUBLE, or compares the two: Spark has other digits than Java."""
    types = [child.type for child in bound.children]
    match bound.node:
        case e.Cast():
            return t.contains(types[0], lambda part: part == t.DOUBLE) and t.contains(bound.type, _is_decimal)
        case e.Comparison() | e.Between():
            return t.DOUBLE in types and any(of is not None and _is_decimal(of) for of in types)
        case _:
            return False


def _is_decimal(sql_type: SqlType) -> bool:
    return isinstance(sql_type, Decimal)


def columns_of(bound: Bound) -> Iterator[tuple[str, SqlType | None]]:
    """Yield the columns that an expression refers to, with their types."""
    if isinstance(bound.node, e.ColumnRef):
        yield bound.node.name, bound.type
    for child in bound.children:
        yield from columns_of(child)


def interpretable(bound: Bound) -> Bound:
    """Return the expression with the Python implementation in place of each native function.

    Raises:
        UnsupportedError: a native function has no Python implementation; it is user-defined.
    """
    children = tuple(map(interpretable, bound.children))
    function = bound.function
    if not isinstance(function, Scalar) or function.runs is Runs.PYTHON:
        return replace(bound, children=children)
    name = function.body.__name__
    if name not in IMPLEMENTATIONS:
        raise UnsupportedError(
            f"{function.name} runs as a Spark expression, so a lambda cannot combine it with Python functions",
            span=bound.node.span,
            hint="declare it with python_scalar",
        )
    return replace(
        bound,
        children=children,
        function=replace(function, body=InterpretedBody(name), with_types=True, runs=Runs.PYTHON),
    )


def evaluate(bound: Bound, values: Values) -> Any:
    """Evaluate an expression that `interpretable` returned; any exception means that it fails."""
    return _evaluate(bound.node, bound, values)


def _operands(bound: Bound, values: Values) -> list[Any]:
    return [evaluate(child, values) for child in bound.children]


def _scoped(bound: Bound, values: Values) -> Any:
    """Evaluate an expression that is an error scope of its own if scopes are nested."""
    if not values.nested:
        return evaluate(bound, values)
    try:
        return evaluate(bound, values)
    except TimeLimitError:
        # Without this, each item of the lambda could take the full time limit.
        raise
    except Exception:  # noqa: BLE001 - any exception of a function is a failure of this scope
        return None


def _not_null(value: Any) -> Any:
    if value is None:
        raise NullOperandError("an operand is NULL")
    return value


@singledispatch
def _evaluate(node: object, bound: Bound, values: Values) -> Any:
    raise UnsupportedError(f"{type(node).__name__} is not supported here")


@_evaluate.register
def _(node: e.NullLiteral, bound: Bound, values: Values) -> Any:
    return None


@_evaluate.register(e.BooleanLiteral)
@_evaluate.register(e.IntegerLiteral)
@_evaluate.register(e.LongLiteral)
@_evaluate.register(e.DoubleLiteral)
@_evaluate.register(e.StringLiteral)
def _(node: e.StringLiteral, bound: Bound, values: Values) -> Any:
    return node.value


@_evaluate.register
def _(node: e.DecimalLiteral, bound: Bound, values: Values) -> Any:
    return round_decimal(node.value, bound.type) if bound.type is not None else None


@_evaluate.register
def _(node: e.IntervalUnit, bound: Bound, values: Values) -> Any:
    return node.unit


@_evaluate.register
def _(node: e.ColumnRef, bound: Bound, values: Values) -> Any:
    return values.columns[node.name]


@_evaluate.register
def _(node: e.LambdaVariable, bound: Bound, values: Values) -> Any:
    return values.variables[node.name]


@_evaluate.register
def _(node: e.Lambda, bound: Bound, values: Values) -> Any:
    body = bound.children[0]

    def call(*arguments: Any) -> Any:
        check_work()
        inner = dict(zip(node.parameters, arguments, strict=True))
        return evaluate(body, replace(values, variables={**values.variables, **inner}))

    return call


@_evaluate.register
def _(node: e.Not, bound: Bound, values: Values) -> Any:
    return not _not_null(evaluate(bound.children[0], values))


@_evaluate.register
def _(node: e.Logical, bound: Bound, values: Values) -> Any:
    left = _not_null(evaluate(bound.children[0], values))
    if left is (node.op is e.LogicalOp.OR):
        return left
    return _not_null(evaluate(bound.children[1], values))


@_evaluate.register
def _(node: e.Comparison, bound: Bound, values: Values) -> Any:
    left, right = bound.children
    value = evaluate(left, values)
    if value is None and not node.op.takes_null:
        return False
    return compare(node.op, value, evaluate(right, values), left.type, right.type)


@_evaluate.register
def _(node: e.Between, bound: Bound, values: Values) -> Any:
    operand, *bounds = bound.children
    value = evaluate(operand, values)
    return value is not None and all(
        compare(op, value, evaluate(limit, values), operand.type, limit.type)
        for op, limit in zip((ComparisonOp.GREATER_THAN_OR_EQUAL, ComparisonOp.LESS_THAN_OR_EQUAL), bounds, strict=True)
    )


@_evaluate.register
def _(node: e.InList, bound: Bound, values: Values) -> Any:
    value, *items = _operands(bound, values)
    types = [child.type for child in bound.children]
    return any(
        compare(ComparisonOp.EQUAL, *as_comparable_numbers(value, item), types[0], of)
        for item, of in zip(items, types[1:], strict=True)
    )


@_evaluate.register
def _(node: e.Like, bound: Bound, values: Values) -> Any:
    value, pattern = map(_not_null, _operands(bound, values))
    return like_pattern(pattern, node.escape).fullmatch(value) is not None


@_evaluate.register
def _(node: e.IsNull, bound: Bound, values: Values) -> Any:
    return evaluate(bound.children[0], values) is None


@_evaluate.register
def _(node: e.IsNotNull, bound: Bound, values: Values) -> Any:
    return evaluate(bound.children[0], values) is not None


@_evaluate.register
def _(node: e.Arithmetic, bound: Bound, values: Values) -> Any:
    left, right = _operands(bound, values)
    if bound.type == t.STRING:
        return f"{'null' if left is None else left}{'null' if right is None else right}"
    return compute(node.op, _not_null(left), _not_null(right), bound.type)


@_evaluate.register
def _(node: e.Negate, bound: Bound, values: Values) -> Any:
    value = _not_null(evaluate(bound.children[0], values))
    if isinstance(value, decimal.Decimal):
        return ROUNDING.minus(value)
    return wrap_integer(-value, 32 if bound.type == t.INTEGER else 64) if isinstance(value, int) else -value


@_evaluate.register
def _(node: e.UnaryPlus, bound: Bound, values: Values) -> Any:
    return evaluate(bound.children[0], values)


@_evaluate.register
def _(node: e.Case, bound: Bound, values: Values) -> Any:
    for at in range(len(node.branches)):
        if _not_null(evaluate(bound.children[2 * at], values)):
            return evaluate(bound.children[2 * at + 1], values)
    return evaluate(bound.children[-1], values) if node.default is not None else None


@_evaluate.register
def _(node: e.Cast, bound: Bound, values: Values) -> Any:
    if bound.implicit or bound.type is None:
        return _cast(bound, values)
    try:
        value = _cast(bound, values)
    except Exception as error:
        if values.nested and not isinstance(error, TimeLimitError):
            return None
        raise
    return "null" if value is None and bound.type == t.STRING and not values.preserve_nulls else value


def _cast(bound: Bound, values: Values) -> Any:
    (operand,) = bound.children
    value = evaluate(operand, values)
    return value if bound.type is None else cast_value(value, operand.type, bound.type)


@_evaluate.register
def _(node: e.ArrayConstructor, bound: Bound, values: Values) -> Any:
    return [_scoped(child, values) for child in bound.children]


@_evaluate.register
def _(node: e.MapConstructor, bound: Bound, values: Values) -> Any:
    parts = [_scoped(child, values) for child in bound.children]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@_evaluate.register
def _(node: e.StructConstructor, bound: Bound, values: Values) -> Any:
    return {name: _scoped(child, values) for (name, _), child in zip(node.fields, bound.children, strict=True)}


@_evaluate.register
def _(node: e.Subscript, bound: Bound, values: Values) -> Any:
    base, index = _operands(bound, values)
    if base is None:
        return None
    if isinstance(of := bound.children[0].type, Map):
        return base.get(index) if can_be_equal(bound.children[1].type, of.key) else None
    position = _not_null(index)
    if position == 0 or abs(position) > len(base):
        return None
    return base[position - 1 if position > 0 else position]


@_evaluate.register
def _(node: e.Dereference, bound: Bound, values: Values) -> Any:
    base = evaluate(bound.children[0], values)
    return None if base is None else base[node.field]


@_evaluate.register
def _(node: e.FunctionCall, bound: Bound, values: Values) -> Any:
    arguments = [
        _scoped(child, values) if isinstance(child.node, e.FunctionCall | e.Dereference) else evaluate(child, values)
        for child in bound.children
    ]
    return _apply(bound, arguments, values)


def _apply(bound: Bound, arguments: list[Any], values: Values) -> Any:
    function = bound.function
    if not isinstance(function, Scalar) or bound.type is None:
        raise UnsupportedError("only a scalar function can be called here")
    if any(required and argument is None for required, argument in zip(bound.required, arguments, strict=False)):
        raise NullOperandError(f"an argument of {function.name} is NULL")
    if function.nulls is Nulls.PROPAGATE and None in arguments:
        return None
    if not function.with_types:
        return function.body(*arguments)
    settings = {key: value for key, value in values.settings.items() if key.startswith("ksql.functions.")}
    return function.body(CallTypes(tuple(child.type for child in bound.children), bound.type, settings), *arguments)
