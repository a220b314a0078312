"""Evaluates expressions over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kestrel_sql.expressions.columns import Columns, Failures
from kestrel_sql.expressions.compiler import Options, compile_expression
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types.sql_types import SqlType

Outcome = tuple[Any, bool]
"""A value, and whether the evaluation failed; what fails is NULL."""


def outcomes(
    text: str,
    types: Mapping[str, SqlType] | None = None,
    rows: Sequence[Mapping[str, Any]] = ({},),
    *,
    nested: bool = True,
    functions: Registry = FUNCTIONS,
) -> list[Outcome]:
    """Evaluate an expression over rows of columns of the given types."""
    given = types or {}
    evaluate = compile_expression(bind(parse_expression(text), given, functions), Options(nested=nested))
    failures: Failures = {}
    found = evaluate(Columns({name: [row[name] for row in rows] for name in given}, len(rows)), failures)
    return [(None, True) if at in failures else (value, False) for at, value in enumerate(found)]


def outcome(text: str, *, nested: bool = True, functions: Registry = FUNCTIONS) -> Outcome:
    """Evaluate an expression without columns."""
    (found,) = outcomes(text, nested=nested, functions=functions)
    return found
