"""Builds expression nodes; lark calls the method named like the reduced grammar rule."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Sequence
from typing import TypeVar

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes.walk import rewrite
from kestrel_sql.sql.parse.spans import Children, Part, child_span, cover, kinds, names, node, nodes, part
from kestrel_sql.sql.parse.tokens import Token
from kestrel_sql.sql.parse.types import TypeRules

_ARITHMETIC = {op.value: op for op in e.ArithmeticOp}
_COMPARISON = {**{op.value: op for op in e.ComparisonOp}, "!=": e.ComparisonOp.NOT_EQUAL}
_LONG = 2**63
_LONG_DIGITS = 19
_EXACT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
_MAX_DIGITS = 1000
_P = TypeVar("_P", e.Between, e.InList, e.Like)


class ExpressionRules(TypeRules):
    """Expressions and literals."""

    negation = node(e.Not, 1)  # `NOT a`
    negate = node(e.Negate, 1)  # `-a`
    unary_plus = node(e.UnaryPlus, 1)  # `+a`
    branch = node(e.When, 1, 3)  # `WHEN a THEN b`
    otherwise = part("otherwise", 1)  # `ELSE a`
    cast = node(e.Cast, 2, 4)  # `CAST(a AS type)`
    map_entry = part("map_entry", 0, 2)  # `key := value`
    struct_entry = part("struct_entry", 0, 2)  # `field := value`
    subscript = node(e.Subscript, 0, 2)  # `a[b]`
    dereference = node(e.Dereference, 0, 2)  # `a->b`
    column = node(e.ColumnRef, 0)  # `a`
    qualified_column = node(e.ColumnRef, 2, 0)  # `s.a`
    null = node(e.NullLiteral)  # `NULL`

    def logical(self, c: Children) -> e.Logical:
        """`a AND b`, `a OR b`."""
        return e.Logical(e.LogicalOp(c[1].type), c[0], c[2], span=cover(c))

    def comparison(self, c: Children) -> e.Comparison:
        """`a = b` and the other comparisons."""
        return e.Comparison(_COMPARISON[c[1].value], c[0], c[2], span=cover(c))

    def is_distinct(self, c: Children) -> e.Comparison:
        """`a IS [NOT] DISTINCT FROM b`."""
        op = e.ComparisonOp.IS_NOT_DISTINCT_FROM if "NOT" in kinds(c) else e.ComparisonOp.IS_DISTINCT_FROM
        return e.Comparison(op, c[0], c[-1], span=cover(c))

    def is_null(self, c: Children) -> e.IsNull | e.IsNotNull:
        """`a IS [NOT] NULL`."""
        return e.IsNotNull(c[0], span=cover(c)) if "NOT" in kinds(c) else e.IsNull(c[0], span=cover(c))

    def between(self, c: Children) -> e.Between | e.Not:
        """`a [NOT] BETWEEN b AND c`."""
        operand, lower, upper = nodes(c)
        return _negated(c, e.Between(operand, lower, upper, span=cover(c)))

    def in_list(self, c: Children) -> e.InList | e.Not:
        """`a [NOT] IN (b, …)`."""
        operand, *items = nodes(c)
        return _negated(c, e.InList(operand, tuple(items), span=cover(c)))

    def like(self, c: Children) -> e.Like | e.Not:
        """`a [NOT] LIKE b [ESCAPE 'c']`."""
        operand, pattern = nodes(c)
        escape = self.text_of(c[-1]) if "ESCAPE" in kinds(c) else None
        return _negated(c, e.Like(operand, pattern, escape, span=cover(c)))

    def concatenation(self, c: Children) -> e.FunctionCall:
        """`a || b`, which is CONCAT(a, b)."""
        return e.FunctionCall("CONCAT", (c[0], c[2]), span=cover(c))

    def arithmetic(self, c: Children) -> e.Arithmetic:
        """`a + b` and the other arithmetic operations."""
        return e.Arithmetic(_ARITHMETIC[c[1].value], c[0], c[2], span=cover(c))

    def at_time_zone(self, c: Children) -> e.AtTimeZone:
        """`a AT TIME ZONE 'z'`."""
        return e.AtTimeZone(c[0], self.text_of(c[-1]), span=cover(c))

    def parenthesised(self, c: Children) -> e.Expression:
        """`(a)`; the parentheses leave no node."""
        inner: e.Expression = c[1]
        return inner

    def simple_case(self, c: Children) -> e.SimpleCase:
        """`CASE x WHEN …`."""
        default = c[-2].value if isinstance(c[-2], Part) else None
        return e.SimpleCase(c[1], tuple(n for n in nodes(c) if isinstance(n, e.When)), default, span=cover(c))

    def searched_case(self, c: Children) -> e.Case:
        """`CASE WHEN …`."""
        default = c[-2].value if isinstance(c[-2], Part) else None
        return e.Case(nodes(c), default, span=cover(c))

    def array(self, c: Children) -> e.ArrayConstructor:
        """`ARRAY[…]`."""
        return e.ArrayConstructor(nodes(c), span=cover(c))

    def map(self, c: Children) -> e.MapConstructor:
        """`MAP(…)`."""
        return e.MapConstructor(tuple(child.value for child in c if isinstance(child, Part)), span=cover(c))

    def struct(self, c: Children) -> e.StructConstructor:
        """`STRUCT(…)`."""
        return e.StructConstructor(tuple(child.value for child in c if isinstance(child, Part)), span=cover(c))

    def call(self, c: Children) -> e.FunctionCall:
        """`NAME(…)`."""
        return e.FunctionCall(c[0].value.upper(), nodes(c), span=cover(c))

    def call_star(self, c: Children) -> e.FunctionCall:
        """`NAME(*)`, which equals a call without arguments."""
        return e.FunctionCall(c[0].value.upper(), (), span=cover(c))

    def interval_argument(self, c: Children) -> e.IntervalUnit:
        """An interval unit as an argument."""
        return e.IntervalUnit(plural(c[0]), span=cover(c))

    def lambda_bare(self, c: Children) -> e.Lambda:
        """`x => body`."""
        parameters = names(c[:1])
        return e.Lambda(parameters, _bind(c[2], parameters), span=cover(c))

    def lambda_listed(self, c: Children) -> e.Lambda:
        """`(x, y) => body`."""
        *listed, body = nodes(c)
        parameters = tuple(map(_parameter, listed))
        return e.Lambda(parameters, _bind(body, parameters), span=cover(c))

    def typed_literal(self, c: Children) -> e.DecimalLiteral:
        """`"DECIMAL" '1.5'`, the only typed literal."""
        if c[0].value.upper() != "DECIMAL":
            raise SqlSyntaxError(
                f"Unknown type: {c[0].value}", span=cover(c), hint='only "DECIMAL" is allowed before a string'
            )
        return _exact(c, self.text_of(c[1]))

    def true(self, c: Children) -> e.BooleanLiteral:
        """`TRUE`."""
        return e.BooleanLiteral(True, span=cover(c))

    def false(self, c: Children) -> e.BooleanLiteral:
        """`FALSE`."""
        return e.BooleanLiteral(False, span=cover(c))

    def string(self, c: Children) -> e.StringLiteral:
        """`'text'`."""
        return e.StringLiteral(self.text_of(c[0]), span=cover(c))

    def unsigned(self, c: Children) -> e.Literal:
        """A number without a sign."""
        return _number(c, c[0].value)

    def negative(self, c: Children) -> e.Literal:
        """A number with a minus sign."""
        return _number(c, "-" + c[1].value)


def plural(unit: Token) -> str:
    """Return the time unit in upper case and plural."""
    return unit.type if unit.type.endswith("S") else f"{unit.type}S"


def _number(c: Children, text: str) -> e.Literal:
    match c[-1].type:
        case "INTEGER_VALUE":
            # Check few digits only: Python refuses to convert a string of thousands.
            digits = text.lstrip("-0") or "0"
            value = int(digits[: _LONG_DIGITS + 1]) * (-1 if text.startswith("-") else 1)
            if not -_LONG <= value < _LONG:
                raise _invalid_number(text, c)
            return e.IntegerLiteral(value, span=cover(c))
        case "DECIMAL_VALUE":
            return _exact(c, text)
        case _:
            number = float(text)
            if math.isinf(number):
                raise SqlSyntaxError(f"{_prepare(c)}Number overflows DOUBLE: {text}", span=cover(c))
            return e.DoubleLiteral(number, span=cover(c))


def _exact(c: Children, text: str) -> e.DecimalLiteral:
    """Read an exact number as plain digits: the exponent must not count in the DECIMAL's scale."""
    if _EXACT.fullmatch(text) is None:
        raise _invalid_number(text, c)
    value = decimal.Decimal(text)
    # Check before formatting: a short text may expand to a gigabyte of zeros.
    if max(abs(value.adjusted()), abs(int(value.as_tuple().exponent))) > _MAX_DIGITS:
        raise _invalid_number(text, c)
    plain = decimal.Decimal(format(value, "f"))
    return e.DecimalLiteral(plain or plain.copy_abs(), span=cover(c))


def _prepare(c: Children) -> str:
    span = child_span(c[0])
    # After parsing, ksqlDB reports the column one too high.
    return f"Failed to prepare statement: line {span.line}:{span.column + 1}: "


def _invalid_number(text: str, c: Children) -> SqlSyntaxError:
    return SqlSyntaxError(f"{_prepare(c)}Invalid numeric literal: {text}", span=cover(c))


def _negated(c: Children, positive: _P) -> _P | e.Not:
    # A NOT inside an operand belongs to a node; only the rule's own NOT is a token here.
    return e.Not(positive, span=positive.span) if "NOT" in kinds(c) else positive


def _parameter(node: e.Expression) -> str:
    if isinstance(node, e.ColumnRef) and node.qualifier is None:
        return node.name
    span = child_span(node)
    position = f"line {span.line}:{span.column}"
    raise SqlSyntaxError(
        f"{position}: Syntax Error\nSyntax error at or near '=>' at {position}",
        span=node.span,
        hint="lambda parameters must be plain names",
    )


def _bind(body: e.Expression, parameters: Sequence[str]) -> e.Expression:
    """Replace column references that name a parameter by lambda variables, at any depth.

    lark reduces inner lambdas first, so their own parameters are bound already.
    """

    def rule(node: e.Expression) -> e.Expression | None:
        if isinstance(node, e.ColumnRef) and node.qualifier is None and node.name in parameters:
            return e.LambdaVariable(node.name, span=node.span)
        return None

    return rewrite(body, rule)
