"""Codecs of the parts of a plan that are SQL text: expressions, select items, types and schemas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from kestrel_sql.errors import EngineError, PlanError
from kestrel_sql.plan.codec.values import Wire, array, sequence, shorten, string
from kestrel_sql.plan.step import SelectItem
from kestrel_sql.sql.format.statements import format_expression, format_identifier
from kestrel_sql.sql.nodes.expressions import Expression, FunctionCall
from kestrel_sql.sql.parse.parser import parse_expression, parse_schema, parse_select_item, parse_type
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import SqlType

T = TypeVar("T")


def parsed(parse: Callable[[str], T], value: object, path: str, expected: str) -> T:
    """Parse the SQL text `value` with `parse`.

    Raises:
        PlanError: not a string, or `parse` rejects it; the message says what was `expected`, such as "a type".
    """
    sql = string(value, path)
    try:
        node: T = _parse_cached(parse, sql)
    except EngineError as error:
        reason = error.message.splitlines()[0] if error.message else ""
        raise PlanError(f"{shorten(sql)!r} is not {expected}: {reason}", path=path) from error
    except (ValueError, ArithmeticError) as error:
        raise PlanError(f"{shorten(sql)!r} is not {expected}", path=path) from error
    return node


@functools.lru_cache(maxsize=2048)
def _parse_cached(parse: Callable[[str], T], sql: str) -> T:
    """Parse `sql`; steps and plans repeat the same schemas and columns, and nodes are immutable."""
    return parse(sql)


def _expression(value: object, path: str) -> Expression:
    return parsed(parse_expression, value, path, "an expression")


def _call(value: object, path: str) -> FunctionCall:
    expression = _expression(value, path)
    if not isinstance(expression, FunctionCall):
        raise PlanError(f"{shorten(str(value))!r} is not a function call", path=path)
    return expression


def _select_item(value: object, path: str) -> SelectItem:
    expression, alias = parsed(parse_select_item, value, path, "an expression with an alias")
    if not alias:
        raise PlanError(f"{shorten(str(value))!r} has no alias", path=path)
    return SelectItem(expression, alias)


def _schema(value: object, path: str) -> Schema:
    return parsed(parse_schema, value, path, "a schema")


def _column(value: object, path: str) -> Column:
    columns = _schema(value, path).columns
    if len(columns) != 1:
        raise PlanError(f"{shorten(str(value))!r} is not one column", path=path)
    return columns[0]


def _type(value: object, path: str) -> SqlType:
    return parsed(parse_type, value, path, "a type")


EXPRESSION = Wire(_expression, format_expression)
CALL = Wire(_call, format_expression)
SELECT_ITEM = Wire(
    _select_item, lambda item: f"{format_expression(item.expression)} AS {format_identifier(item.alias)}"
)
SCHEMA = Wire(_schema, str)
COLUMN = Wire(_column, str)
TYPE = Wire(_type, str)

_EXPRESSIONS = sequence(EXPRESSION)


def _key_expressions(value: object, path: str) -> tuple[Expression, ...]:
    if isinstance(value, str):
        return (_expression(value, path),)
    if not array(value, path):
        raise PlanError("expected at least one expression", path=path)
    expressions: tuple[Expression, ...] = _EXPRESSIONS.decode(value, path)
    return expressions


KEY_EXPRESSIONS = Wire(_key_expressions, _EXPRESSIONS.encode)
"""A list of expressions; ksqlDB 6.0 to 6.2 wrote a single one as a bare string (rules P9)."""
