"""Arithmetic as Java does it (`spec/language.md` 4.4)."""

from __future__ import annotations

from sqlglot import exp

from engine.functions.declaration import Checked
from engine.spark import sqltree as s
from engine.spark.sqltree import Tree
from engine.sql.expressions import ArithmeticOp
from engine.types import sql_types as t
from engine.types.sql_types import Decimal, SqlType

_KINDS: dict[ArithmeticOp, type[exp.Binary]] = {
    ArithmeticOp.ADD: exp.Add,
    ArithmeticOp.SUBTRACT: exp.Sub,
    ArithmeticOp.MULTIPLY: exp.Mul,
    ArithmeticOp.DIVIDE: exp.Div,
    ArithmeticOp.MODULUS: exp.Mod,
}


def combine(op: ArithmeticOp, left: Tree, right: Tree, types: tuple[SqlType | None, SqlType | None], result: SqlType | None) -> Checked:
    """Combine two operands of the given types; a NULL operand is a failure, except for text."""
    if result == t.STRING:
        return Checked(s.call("concat", s.call("coalesce", left, s.text("null")), s.call("coalesce", right, s.text("null"))))
    null_operand = s.any_of(s.is_null(x) for x in (left, right) if not s.is_constant(x))
    if result == t.DOUBLE:
        value = _double(op, s.cast(left, t.DOUBLE), s.cast(right, t.DOUBLE))
        if op in (ArithmeticOp.DIVIDE, ArithmeticOp.MODULUS):
            return Checked(value, null_operand)
        return s.null_fails(value) if null_operand is not None else Checked(value, exact=True)
    if isinstance(result, Decimal):
        return _decimal(op, left, right, types, result, null_operand)
    left, right = (_widened(x, sql_type, result) for x, sql_type in zip((left, right), types, strict=True))
    return _whole(op, left, right, result, null_operand)


def _widened(value: Tree, sql_type: SqlType | None, result: SqlType | None) -> Tree:
    return value if sql_type == result and isinstance(value, exp.Column | exp.Dot | exp.Literal | exp.Cast) else s.cast(value, result)


def _whole(op: ArithmeticOp, left: Tree, right: Tree, result: SqlType | None, null_operand: Tree | None) -> Checked:
    kind = exp.IntDiv if op is ArithmeticOp.DIVIDE else _KINDS[op]
    value = s.cast(s.binary(kind, left, right), result)
    divides = op in (ArithmeticOp.DIVIDE, ArithmeticOp.MODULUS) and not _is_not_zero(right)
    # Spark divides by zero without an error, to NULL.
    return s.null_fails(value) if divides or null_operand is not None else Checked(value, exact=True)


def _is_not_zero(divisor: Tree) -> bool:
    return isinstance(divisor, exp.Literal) and not divisor.is_string and int(divisor.name) != 0


def _double(op: ArithmeticOp, left: Tree, right: Tree) -> Tree:
    """IEEE: Spark gives NULL for a division by zero, Java an infinity or NaN."""
    plain = s.binary(_KINDS[op], left, right)
    if op is ArithmeticOp.DIVIDE:
        positive = s.double(float("inf"))
        by_zero = s.case(
            [
                (s.any_of([s.call("isnan", left), s.binary(exp.EQ, left, s.double(0.0))]) or s.FALSE, s.double(float("nan"))),
                (s.binary(exp.GT, left, s.double(0.0)), positive),
            ],
            s.double(float("-inf")),
        )
        return s.if_(s.binary(exp.EQ, right, s.double(0.0)), by_zero, plain)
    if op is ArithmeticOp.MODULUS:
        return s.if_(s.binary(exp.EQ, right, s.double(0.0)), s.double(float("nan")), plain)
    return plain


def _decimal(
    op: ArithmeticOp, left: Tree, right: Tree, types: tuple[SqlType | None, SqlType | None], result: Decimal, null_operand: Tree | None
) -> Checked:
    a, b = (_as_decimal(x, sql_type) for x, sql_type in zip((left, right), types, strict=True))
    value = s.cast(s.binary(_KINDS[op], a, b), result)
    if op is ArithmeticOp.DIVIDE:
        back = s.binary(exp.Mul, value, b)
        inexact = s.not_(s.coalesce_false(s.binary(exp.EQ, back, a)))
        return Checked(value, s.any_of([null_operand, s.is_null(value), inexact]))
    return s.null_fails(value)


def _as_decimal(value: Tree, sql_type: SqlType | None) -> Tree:
    if sql_type == t.INTEGER:
        return s.cast(value, Decimal(10, 0))
    if sql_type == t.BIGINT:
        return s.cast(value, Decimal(19, 0))
    return value
