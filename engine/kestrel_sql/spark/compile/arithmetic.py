"""Compiles arithmetic with the results of Java (rules L4.4)."""

from __future__ import annotations

import decimal

from sqlglot import exp

from kestrel_sql.functions.declaration import Checked
from kestrel_sql.functions.library.spark_sql.expressions import is_large, let
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.sql.nodes.expressions import ArithmeticOp
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Decimal, SqlType

_KINDS: dict[ArithmeticOp, type[exp.Binary]] = {
    ArithmeticOp.ADD: exp.Add,
    ArithmeticOp.SUBTRACT: exp.Sub,
    ArithmeticOp.MULTIPLY: exp.Mul,
    ArithmeticOp.DIVIDE: exp.Div,
    ArithmeticOp.MODULUS: exp.Mod,
}


def combine(
    op: ArithmeticOp, left: Tree, right: Tree, types: tuple[SqlType | None, SqlType | None], result: SqlType | None
) -> Checked:
    """Apply an operator to operands of the given types. A NULL operand is a failure, except in a concatenation."""
    if result == t.STRING:
        return Checked(
            s.call("concat", s.call("coalesce", left, s.text("null")), s.call("coalesce", right, s.text("null")))
        )
    null_operand = s.any_of(s.is_null(x) for x in (left, right) if not s.is_constant(x))
    if result == t.DOUBLE:
        value = _double(op, s.cast(left, t.DOUBLE), s.cast(right, t.DOUBLE))
        return s.null_fails(value) if null_operand is not None else Checked(value, null_only_on_failure=True)
    if isinstance(result, Decimal):
        return _decimal(op, left, right, types, result, null_operand)
    left, right = (_widened(x, sql_type, result) for x, sql_type in zip((left, right), types, strict=True))
    return _whole(op, left, right, result, null_operand)


def _widened(value: Tree, sql_type: SqlType | None, result: SqlType | None) -> Tree:
    return (
        value
        if sql_type == result and isinstance(value, exp.Column | exp.Dot | exp.Literal | exp.Cast)
        else s.cast(value, result)
    )


def _whole(op: ArithmeticOp, left: Tree, right: Tree, result: SqlType | None, null_operand: Tree | None) -> Checked:
    kind = exp.IntDiv if op is ArithmeticOp.DIVIDE else _KINDS[op]
    value = s.cast(s.binary(kind, left, right), result)
    divides = op in (ArithmeticOp.DIVIDE, ArithmeticOp.MODULUS) and not _is_not_zero(right)
    # In Spark a division by zero gives NULL, not an error.
    return s.null_fails(value) if divides or null_operand is not None else Checked(value, null_only_on_failure=True)


def _is_not_zero(divisor: Tree) -> bool:
    literal = divisor.this if isinstance(divisor, exp.Cast) else divisor
    return isinstance(literal, exp.Literal) and s.is_constant(divisor) and float(literal.name) != 0


def _double(op: ArithmeticOp, left: Tree, right: Tree) -> Tree:
    """Arithmetic on DOUBLE: a division by zero gives NULL in Spark, but an infinity or NaN in Java."""
    if op not in (ArithmeticOp.DIVIDE, ArithmeticOp.MODULUS) or _is_not_zero(right):
        return s.binary(_KINDS[op], left, right)
    if is_large(right):
        return let([left, right], lambda a, b: _by_any(op, a, b))
    return _by_any(op, left, right)


def _by_any(op: ArithmeticOp, left: Tree, right: Tree) -> Tree:
    """Divide by a value that may be zero.

    The quotient is then a product with an infinity of its sign, the remainder NaN.
    """
    is_zero = s.binary(exp.EQ, right, s.double(0.0))
    if op is ArithmeticOp.MODULUS:
        return s.binary(exp.Mod, left, s.if_(is_zero, s.double(float("nan")), right))
    is_negative = s.binary(exp.EQ, s.cast(right, t.STRING), s.text("-0.0"))
    infinity = s.if_(is_negative, s.double(float("-inf")), s.double(float("inf")))
    product = s.binary(exp.Mul, left, s.if_(is_zero, infinity, s.double(1.0)))
    return s.binary(exp.Div, product, s.if_(is_zero, s.double(1.0), right))


def _decimal(
    op: ArithmeticOp,
    left: Tree,
    right: Tree,
    types: tuple[SqlType | None, SqlType | None],
    result: Decimal,
    null_operand: Tree | None,
) -> Checked:
    a, b = (_as_decimal(x, sql_type) for x, sql_type in zip((left, right), types, strict=True))
    value = s.cast(s.binary(_KINDS[op], a, b), result)
    if op is ArithmeticOp.DIVIDE:
        shift = s.decimal(decimal.Decimal(10**result.scale), Decimal(result.scale + 1, 0))
        rest = s.binary(exp.Mod, s.binary(exp.Mul, a, shift), b)
        inexact = s.not_(s.coalesce_false(s.binary(exp.EQ, rest, s.integer(0))))
        return Checked(value, s.any_of([null_operand, s.is_null(value), inexact]))
    return s.null_fails(value)


def digits_between(op: ArithmeticOp, types: tuple[SqlType | None, SqlType | None], result: Decimal) -> int:
    """Return the digits of the largest number on the way to a result: Spark fails, or rounds, beyond its 38."""
    # A division needs the dividend times a power of 10, whose remainder tells whether the quotient is exact.
    return _decimal_of(types[0]).precision + result.scale + 2 if op is ArithmeticOp.DIVIDE else result.precision


def _as_decimal(value: Tree, sql_type: SqlType | None) -> Tree:
    return value if isinstance(sql_type, Decimal) else s.cast(value, _decimal_of(sql_type))


def _decimal_of(sql_type: SqlType | None) -> Decimal:
    if isinstance(sql_type, Decimal):
        return sql_type
    return Decimal(10, 0) if sql_type == t.INTEGER else Decimal(19, 0)
