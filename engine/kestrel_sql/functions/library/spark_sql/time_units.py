"""Interval units, and range checks for the integers that time functions return."""

from __future__ import annotations

from sqlglot import exp

from kestrel_sql.functions.library.spark_sql.expressions import Tree, cast, number, op
from kestrel_sql.types.time_units import UNIT_MS


def span_millis(unit: Tree, count: Tree) -> Tree:
    """Return `count` units in ms as a BIGINT.

    The unit is a literal such as `'DAYS'`, or NULL, which makes the result NULL.
    """
    millis = cast(exp.null(), "BIGINT") if isinstance(unit, exp.Null) else number(UNIT_MS[unit.name])
    return op(exp.Mul, cast(count, "BIGINT"), millis)


def to_int(value: int) -> int:
    """Return `value` if it is an INT.

    Raises:
        ValueError: the value is out of range.
    """
    if not -(2**31) <= value < 2**31:
        raise ValueError("integer overflow")
    return value


def to_bigint(value: int) -> int:
    """Return `value` if it is a BIGINT.

    Raises:
        ValueError: the value is out of range.
    """
    if not -(2**63) <= value < 2**63:
        raise ValueError("long overflow")
    return value
