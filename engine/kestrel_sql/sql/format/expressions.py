"""Formats identifiers, types and expressions as SQL text (rules P4.6, E11)."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable
from functools import singledispatch

from kestrel_sql.java.numbers import double_digits
from kestrel_sql.sql.keywords import is_plain
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes.chains import along_chains
from kestrel_sql.types.sql_types import Array, Map, NamedType, SqlType, Struct, quote

_CONSTRUCTORS = ("ARRAY", "MAP", "STRUCT")


def format_identifier(name: str) -> str:
    """Write a name, in backticks only if it would not parse as the same name without them."""
    return name if is_plain(name) else quote(name)


def format_string(text: str) -> str:
    """Write a string literal."""
    return "'" + text.replace("'", "''") + "'"


def format_double(value: float) -> str:
    """Write a finite DOUBLE in scientific notation with the digits that Java writes, such as 1.5E0."""
    digits, power = double_digits(abs(value)) if value else ("0", 0)
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' if math.copysign(1.0, value) < 0 else ''}{digits[0]}{fraction}E{power}"


def format_decimal(value: decimal.Decimal) -> str:
    """Write a DECIMAL in plain notation, always with a decimal point: without one it would be an INTEGER or BIGINT."""
    text = format(value, "f")
    return text if "." in text else f"{text}."


def format_type(sql_type: SqlType) -> str:
    """Write a type; field names are quoted only where needed, other than in `str()`."""
    match sql_type:
        case Struct(fields):
            inner = ", ".join(f"{format_identifier(f.name)} {format_type(f.type)}" for f in fields)
            return f"STRUCT<{inner or ' '}>"
        case Array(item):
            return f"ARRAY<{format_type(item)}>"
        case Map(key, value):
            return f"MAP<{format_type(key)}, {format_type(value)}>"
        case NamedType(name):
            return format_identifier(name)
        case _:
            return str(sql_type)


@along_chains
def format_expression(expression: e.Expression) -> str:
    """Write an expression with every operator in parentheses; parsing the text returns an equal expression.

    Raises:
        TypeError: not an expression node.
    """
    return _format(expression)


@singledispatch
def _format(expression: e.Expression) -> str:
    raise TypeError(f"not an expression: {expression!r}")


@_format.register
def _(expression: e.NullLiteral) -> str:
    return "null"


@_format.register
def _(expression: e.BooleanLiteral) -> str:
    return "true" if expression.value else "false"


@_format.register(e.IntegerLiteral)
@_format.register(e.LongLiteral)
def _(expression: e.IntegerLiteral | e.LongLiteral) -> str:
    return str(expression.value)


@_format.register
def _(expression: e.DecimalLiteral) -> str:
    return format_decimal(expression.value)


@_format.register
def _(expression: e.DoubleLiteral) -> str:
    return format_double(expression.value)


@_format.register
def _(expression: e.StringLiteral) -> str:
    return format_string(expression.value)


@_format.register
def _(expression: e.IntervalUnit) -> str:
    return expression.unit


@_format.register
def _(expression: e.ColumnRef) -> str:
    if expression.qualifier is None:
        return format_identifier(expression.name)
    # After the point, a leading digit would be read as the start of a decimal number.
    name = quote(expression.name) if expression.name[:1].isdigit() else format_identifier(expression.name)
    return f"{format_identifier(expression.qualifier)}.{name}"


@_format.register
def _(expression: e.LambdaVariable) -> str:
    return format_identifier(expression.name)


@_format.register
def _(expression: e.Not) -> str:
    return f"(NOT {format_expression(expression.operand)})"


@_format.register(e.Logical)
@_format.register(e.Comparison)
@_format.register(e.Arithmetic)
def _(expression: e.Logical | e.Comparison | e.Arithmetic) -> str:
    return f"({format_expression(expression.left)} {expression.op.value} {format_expression(expression.right)})"


@_format.register
def _(expression: e.Negate) -> str:
    operand = format_expression(expression.operand)
    if operand.startswith("-"):
        return f"- {operand}"
    # A minus directly before digits would become part of the literal.
    return (
        f"-({operand})"
        if operand[0] in "0123456789." and not isinstance(expression.operand, e.ColumnRef)
        else f"-{operand}"
    )


@_format.register
def _(expression: e.UnaryPlus) -> str:
    return f"+{format_expression(expression.operand)}"


@_format.register
def _(expression: e.IsNull) -> str:
    return f"({format_expression(expression.operand)} IS NULL)"


@_format.register
def _(expression: e.IsNotNull) -> str:
    return f"({format_expression(expression.operand)} IS NOT NULL)"


@_format.register
def _(expression: e.Between) -> str:
    bounds = f"{format_expression(expression.lower)} AND {format_expression(expression.upper)}"
    return f"({format_expression(expression.operand)} BETWEEN {bounds})"


@_format.register
def _(expression: e.InList) -> str:
    return f"({format_expression(expression.operand)} IN ({_join(expression.items)}))"


@_format.register
def _(expression: e.Like) -> str:
    escape = "" if expression.escape is None else f" ESCAPE {format_string(expression.escape)}"
    return f"({format_expression(expression.operand)} LIKE {format_expression(expression.pattern)}{escape})"


@_format.register
def _(expression: e.Case) -> str:
    return f"(CASE{_branches(expression)} END)"


@_format.register
def _(expression: e.SimpleCase) -> str:
    return f"(CASE {format_expression(expression.operand)}{_branches(expression)} END)"


@_format.register
def _(expression: e.Cast) -> str:
    return f"CAST({format_expression(expression.operand)} AS {format_type(expression.type)})"


@_format.register
def _(expression: e.ArrayConstructor) -> str:
    return f"ARRAY[{_join(expression.items)}]"


@_format.register
def _(expression: e.MapConstructor) -> str:
    entries = ", ".join(f"{format_expression(key)}:={format_expression(value)}" for key, value in expression.entries)
    return f"MAP({entries})"


@_format.register
def _(expression: e.StructConstructor) -> str:
    fields = ", ".join(f"{format_identifier(name)}:={format_expression(value)}" for name, value in expression.fields)
    return f"STRUCT({fields})"


@_format.register
def _(expression: e.Subscript) -> str:
    return f"{format_base(expression.base)}[{format_expression(expression.index)}]"


@_format.register
def _(expression: e.Dereference) -> str:
    return f"{format_base(expression.base)}->{format_identifier(expression.field)}"


@_format.register
def _(expression: e.Lambda) -> str:
    return f"({', '.join(map(format_identifier, expression.parameters))}) => {format_expression(expression.body)}"


@_format.register
def _(expression: e.FunctionCall) -> str:
    name = quote(expression.name) if expression.name in _CONSTRUCTORS else format_identifier(expression.name)
    arguments = _join(expression.arguments)
    return f"{name}({arguments or ('*' if expression.name == 'COUNT' else '')})"


@_format.register
def _(expression: e.AtTimeZone) -> str:
    return f"({format_base(expression.operand)} AT TIME ZONE {format_string(expression.zone)})"


def format_base(expression: e.Expression) -> str:
    """Write the operand of `[`, `->` or AT TIME ZONE, in parentheses if it binds less tightly."""
    text = format_expression(expression)
    if isinstance(expression, (e.Negate, e.UnaryPlus)) or text.startswith("-"):
        return f"({text})"
    # ARRAY before a bracket starts a constructor.
    return quote(text) if text == "ARRAY" else text


def _join(items: Iterable[e.Expression]) -> str:
    return ", ".join(map(format_expression, items))


def _branches(case: e.Case | e.SimpleCase) -> str:
    text = "".join(f" WHEN {format_expression(b.condition)} THEN {format_expression(b.result)}" for b in case.branches)
    return text if case.default is None else f"{text} ELSE {format_expression(case.default)}"
