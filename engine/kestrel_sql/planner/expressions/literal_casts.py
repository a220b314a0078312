"""Fits the literals of an INSERT INTO … SELECT to DECIMAL columns (rules N9)."""

from __future__ import annotations

import decimal

from kestrel_sql.java.numbers import EXACT
from kestrel_sql.sql.nodes.expressions import DecimalLiteral, DoubleLiteral, Expression, IntegerLiteral, LongLiteral
from kestrel_sql.types.conversion import can_implicitly_cast
from kestrel_sql.types.sql_types import Decimal, SqlType


def fit_literal(expression: Expression, target: SqlType) -> Expression:
    """Convert a number literal that fits a DECIMAL target to the target's scale; return anything else unchanged."""
    if not isinstance(target, Decimal) or not isinstance(
        expression, IntegerLiteral | LongLiteral | DoubleLiteral | DecimalLiteral
    ):
        return expression
    exact = expression.value if isinstance(expression, DecimalLiteral) else decimal.Decimal(str(expression.value))
    if not can_implicitly_cast(_smallest(exact), target):
        return expression
    return DecimalLiteral(exact.quantize(decimal.Decimal(1).scaleb(-target.scale), context=EXACT), span=expression.span)


def _smallest(exact: decimal.Decimal) -> Decimal:
    _, digits, exponent = exact.as_tuple()
    scale = max(0, -int(exponent))
    return Decimal(max(len(digits) + max(0, int(exponent)), scale), scale)
