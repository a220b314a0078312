"""Expressions that Arrow computes as Spark SQL does (ADR 24).

These are comparisons, arithmetic and casts of INT, BIGINT and DOUBLE, comparisons of strings, literals, AND, OR, NOT,
IN, IS NULL and COALESCE with a literal. Whole numbers wrap on overflow in both, and both order strings by their bytes.
All else, such as division and DECIMAL, is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

Value = Callable[[pa.RecordBatch], Any]
"""Computes a column of a batch: an array, or a scalar for all rows. Raises NotOnArrowError for types that differ."""

Kernel = Callable[[Any, Any], Any]


class NotOnArrowError(Exception):
    """Arrow does not compute a tree, or not as Spark does."""


_COMPARISONS: Mapping[type[exp.Expr], Kernel] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_ARITHMETIC: Mapping[type[exp.Expr], Kernel] = {
    exp.Add: pc.add,
    exp.Sub: pc.subtract,
    exp.Mul: pc.multiply,
}
_OPERATIONS = {**_COMPARISONS, **_ARITHMETIC}
_CONNECTORS: Mapping[type[exp.Expr], Kernel] = {exp.And: pc.and_kleene, exp.Or: pc.or_kleene}
_WHOLE = {exp.DataType.Type.INT: pa.int32(), exp.DataType.Type.BIGINT: pa.int64()}
_TYPES = {
    **_WHOLE,
    exp.DataType.Type.TEXT: pa.string(),
    exp.DataType.Type.BOOLEAN: pa.bool_(),
    exp.DataType.Type.DOUBLE: pa.float64(),
}
_WHOLE_TYPES = {pa.int32(), pa.int64()}
_NUMBERS = _WHOLE_TYPES | {pa.float64()}
_BOOLEAN = {pa.bool_()}
_UNARY: Mapping[type[exp.Expr], tuple[Callable[[Any], Any], Collection[pa.DataType]]] = {
    exp.Not: (pc.invert, _BOOLEAN),
    exp.Neg: (pc.negate, _NUMBERS),
}


def as_array(value: Any, count: int) -> pa.Array:
    """A computed column as an array."""
    return pa.repeat(value, count) if isinstance(value, pa.Scalar) else value


def computed(tree: exp.Expr, inner: Callable[[exp.Expr], Value]) -> Value:
    """Return what computes a tree; `inner` does so for the trees in it.

    Raises:
        NotOnArrowError: only Spark computes it.
    """
    constant = _literal(tree)
    if constant is not None:
        return lambda _: constant
    match tree:
        case exp.Paren(this=content):
            return inner(content)
        case exp.Cast(this=content, to=exp.DataType(this=wanted)) if wanted in _TYPES:
            return _cast(inner(content), _TYPES[wanted])
        case exp.In(this=content, expressions=items):
            value = inner(content)
            return _connected(pc.or_kleene, [_operation(pc.equal, value, inner(item), True) for item in items])
        case exp.Is(this=content, expression=exp.Null()):
            return _is_null(inner(content))
        case exp.Unary(this=content) if type(tree) in _UNARY:
            return _unary(*_UNARY[type(tree)], inner(content))
        case exp.Anonymous(this=name, expressions=[content, other]) if isinstance(other, exp.Boolean | exp.Cast):
            return _unary(*_call(name, other), inner(content))
        case exp.Connector() if type(tree) in _CONNECTORS:
            # It is flattened, because it may be longer than Python's recursion limit.
            return _connected(_CONNECTORS[type(tree)], [inner(part) for part in tree.flatten(unnest=False)])
        case exp.Binary(this=left, expression=right) if type(tree) in _OPERATIONS:
            return _operation(_OPERATIONS[type(tree)], inner(left), inner(right), type(tree) in _COMPARISONS)
        case _:
            raise NotOnArrowError


def _call(name: str, other: exp.Expr) -> tuple[Callable[[Any], Any], Collection[pa.DataType]]:
    """A call whose second argument is a constant: COALESCE with a BOOLEAN, or NANVL with NULL."""
    match name, other:
        case "coalesce", exp.Boolean(this=flag):
            return lambda value: pc.fill_null(value, flag), _BOOLEAN
        case "nanvl", exp.Cast(this=exp.Null()):
            return lambda value: pc.if_else(pc.is_nan(value), None, value), {pa.float64()}
        case _:
            raise NotOnArrowError


def _literal(tree: exp.Expr) -> pa.Scalar | None:
    match tree:
        case exp.Paren(this=exp.Neg(this=exp.Literal(is_string=False, this=text))):
            return _whole(f"-{text}")
        case exp.Boolean(this=flag):
            return pa.scalar(flag)
        case exp.Literal(is_string=True, this=text):
            return pa.scalar(text)
        case exp.Literal(this=text):
            return _whole(text)
        case exp.Cast(this=exp.Literal(this=text), to=exp.DataType(this=exp.DataType.Type.DECIMAL, expressions=sizes)):
            # Arrow refuses a number that does not fit.
            return pa.scalar(Decimal(text), pa.decimal128(*(int(size.name) for size in sizes)))
        case exp.Cast(this=exp.Literal(this=text), to=exp.DataType(this=wanted)) if wanted in _LITERALS:
            return _LITERALS[wanted](text)
        case _:
            return None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise NotOnArrowError from None


def _bigint(text: str) -> pa.Scalar:
    return pa.scalar(_number(text), pa.int64())


_LITERALS: Mapping[Any, Callable[[str], pa.Scalar]] = {
    exp.DataType.Type.BIGINT: _bigint,
    exp.DataType.Type.DOUBLE: lambda text: pa.scalar(float(text)),
}


def _whole(text: str) -> pa.Scalar:
    """A literal without a point, which Spark reads as an INT if it is one, or else as a BIGINT."""
    number = _number(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise NotOnArrowError
    return pa.scalar(number, pa.int32() if -(1 << 31) <= number < 1 << 31 else pa.int64())


def _is_whole(value: Any) -> bool:
    return value.type in _WHOLE_TYPES


def _cast(value: Value, kind: pa.DataType) -> Value:
    """A cast to the type that a value has, or of a number; bits that do not fit into an INT are lost."""

    def cast(batch: pa.RecordBatch) -> Any:
        found = value(batch)
        if found.type == kind:
            return found
        if kind == pa.float64():
            return _double(found)
        if not (_is_whole(found) and kind in _WHOLE_TYPES):
            raise NotOnArrowError
        return pc.cast(found, kind, safe=False)

    return cast


def _is_null(value: Value) -> Value:
    return lambda batch: pc.is_null(value(batch))


def _unary(kernel: Callable[[Any], Any], kinds: Collection[pa.DataType], value: Value) -> Value:
    def apply(batch: pa.RecordBatch) -> Any:
        found = value(batch)
        if found.type not in kinds:
            raise NotOnArrowError
        return kernel(found)

    return apply


def _connected(kernel: Kernel, values: list[Value]) -> Value:
    def connect(batch: pa.RecordBatch) -> Any:
        found = [value(batch) for value in values]
        if not all(pa.types.is_boolean(each.type) for each in found):
            raise NotOnArrowError
        return reduce(kernel, found)

    return connect


def _operation(kernel: Kernel, left: Value, right: Value, compares: bool) -> Value:
    def operate(batch: pa.RecordBatch) -> Any:
        sides = left(batch), right(batch)
        kinds = {side.type for side in sides}
        if pa.float64() in kinds:
            doubles = _double(sides[0]), _double(sides[1])
            return _compared(kernel, *doubles) if compares else kernel(*doubles)
        if not (kinds <= _WHOLE_TYPES or (compares and kinds == {pa.string()})):
            raise NotOnArrowError
        return kernel(*sides)

    return operate


def _double(value: Any) -> Any:
    """A number as DOUBLE; of the DECIMALs, a literal."""
    if pa.types.is_decimal(value.type) and isinstance(value, pa.Scalar):
        return pa.scalar(float(value.as_py()))
    if value.type not in _NUMBERS:
        raise NotOnArrowError
    return value.cast(pa.float64(), safe=False)


def _compared(kernel: Kernel, left: Any, right: Any) -> Any:
    """Compare DOUBLEs as Spark does: NaN equals itself and is greater than all others."""
    is_left, is_right = pc.is_nan(left), pc.is_nan(right)
    zero = pa.scalar(0.0)
    return pc.if_else(
        pc.equal(is_left, is_right),
        kernel(pc.if_else(is_left, zero, left), pc.if_else(is_right, zero, right)),
        kernel(is_left.cast(pa.int8()), is_right.cast(pa.int8())),
    )
