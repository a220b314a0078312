"""Formats identifiers, types and expressions as SQL text (rules P4.6, E11)."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable

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
    match expression:
        case e.NullLiteral():
            return "null"
        case e.BooleanLiteral(value):
            return "true" if value else "false"
        case e.IntegerLiteral(value) | e.LongLiteral(value):
            return str(value)
        case e.DecimalLiteral(value):
            return format_decimal(value)
        case e.DoubleLiteral(value):
            return format_double(value)
        case e.StringLiteral(value):
            return format_string(value)
        case e.IntervalUnit(unit):
            return unit
        case e.LambdaVariable(name) | e.ColumnRef(name, None):
            return format_identifier(name)
        case e.ColumnRef(name, str(qualifier)):
            # After the point, a leading digit would be read as the start of a decimal number.
            written = quote(name) if name[:1].isdigit() else format_identifier(name)
            return f"{format_identifier(qualifier)}.{written}"
        case _:
            return _operator(expression)


def _operator(expression: e.Expression) -> str:
    match expression:
        case e.Not(operand):
            return f"(NOT {format_expression(operand)})"
        case e.Logical(op, left, right) | e.Comparison(op, left, right) | e.Arithmetic(op, left, right):
            return f"({format_expression(left)} {op.value} {format_expression(right)})"
        case e.Negate(operand):
            return _negated(operand)
        case e.UnaryPlus(operand):
            return f"+{format_expression(operand)}"
        case e.IsNull(operand) | e.IsNotNull(operand):
            return f"({format_expression(operand)} IS {'NULL' if isinstance(expression, e.IsNull) else 'NOT NULL'})"
        case e.Between(operand, lower, upper):
            bounds = f"{format_expression(lower)} AND {format_expression(upper)}"
            return f"({format_expression(operand)} BETWEEN {bounds})"
        case e.InList(operand, items):
            return f"({format_expression(operand)} IN ({_join(items)}))"
        case e.Like(operand, pattern, escape):
            ending = "" if escape is None else f" ESCAPE {format_string(escape)}"
            return f"({format_expression(operand)} LIKE {format_expression(pattern)}{ending})"
        case e.AtTimeZone(operand, zone):
            return f"({format_base(operand)} AT TIME ZONE {format_string(zone)})"
        case _:
            return _compound(expression)


def _negated(operand: e.Expression) -> str:
    text = format_expression(operand)
    if text.startswith("-"):
        return f"- {text}"
    # A minus directly before digits would become part of the literal.
    return f"-({text})" if text[0] in "0123456789." and not isinstance(operand, e.ColumnRef) else f"-{text}"


def _compound(expression: e.Expression) -> str:
    match expression:
        case e.Case() | e.SimpleCase():
            return f"(CASE{_branches(expression)} END)"
        case e.Cast(operand, sql_type):
            return f"CAST({format_expression(operand)} AS {format_type(sql_type)})"
        case e.ArrayConstructor(items):
            return f"ARRAY[{_join(items)}]"
        case e.MapConstructor(entries):
            written = ", ".join(f"{format_expression(key)}:={format_expression(value)}" for key, value in entries)
            return f"MAP({written})"
        case e.StructConstructor(fields):
            written = ", ".join(f"{format_identifier(name)}:={format_expression(value)}" for name, value in fields)
            return f"STRUCT({written})"
        case e.Subscript(base, index):
            return f"{format_base(base)}[{format_expression(index)}]"
        case e.Dereference(base, field):
            return f"{format_base(base)}->{format_identifier(field)}"
        case e.Lambda(parameters, body):
            return f"({', '.join(map(format_identifier, parameters))}) => {format_expression(body)}"
        case e.FunctionCall(name, arguments):
            written = quote(name) if name in _CONSTRUCTORS else format_identifier(name)
            return f"{written}({_join(arguments) or ('*' if name == 'COUNT' else '')})"
        case _:
            raise TypeError(f"not an expression: {expression!r}")


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
    text = f" {format_expression(case.operand)}" if isinstance(case, e.SimpleCase) else ""
    text += "".join(f" WHEN {format_expression(b.condition)} THEN {format_expression(b.result)}" for b in case.branches)
    return text if case.default is None else f"{text} ELSE {format_expression(case.default)}"
