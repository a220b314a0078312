"""Converts timestamp strings that WHERE and HAVING compare with the time of a row or window (rules L11)."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from kestrel_sql.errors import StatementError
from kestrel_sql.planner.expressions.walk import rewrite
from kestrel_sql.sql.nodes.expressions import Between, ColumnRef, Comparison, Expression, LongLiteral, StringLiteral

TIME_COLUMNS = frozenset({"ROWTIME", "WINDOWSTART", "WINDOWEND"})

_ZEROS = "00:00:00.000"
_OFFSET = re.compile(r"(.*?)(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_DATE = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3})", re.ASCII)


def rewrite_timestamps(expression: Expression) -> Expression:
    """Replace strings that are compared with ROWTIME, WINDOWSTART or WINDOWEND by milliseconds.

    Raises:
        StatementError: such a string is not a timestamp.
    """
    return rewrite(expression, _rule)


def _rule(node: Expression) -> Expression | None:
    match node:
        case Comparison(_, ColumnRef(name), StringLiteral()) if name in TIME_COLUMNS:
            return replace(node, right=_millis(node.right))
        case Comparison(_, StringLiteral(), ColumnRef(name)) if name in TIME_COLUMNS:
            return replace(node, left=_millis(node.left))
        case Between(ColumnRef(name), lower, upper) if name in TIME_COLUMNS:
            return replace(node, lower=_millis(lower), upper=_millis(upper))
        case _:
            return None


def _millis(expression: Expression) -> Expression:
    if not isinstance(expression, StringLiteral):
        return expression
    return LongLiteral(parse_partial_timestamp(expression.value), span=expression.span)


def parse_partial_timestamp(text: str) -> int:
    """Parse a timestamp whose trailing parts may be missing; return ms since the epoch, in UTC without an offset.

    Raises:
        StatementError: the text is not such a timestamp.
    """
    date, _, time = text.partition("T")
    try:
        return _instant(date, time, complete="T" in text)
    except (ValueError, OverflowError) as error:
        raise StatementError(
            f"Failed to parse timestamp '{text}': {error}. "
            "Required format is: \"yyyy-MM-dd'T'HH:mm:ss.SSS\", with an optional numeric 4-digit timezone, for example "
            "'2020-05-26T23.59.58.000' or with tz: '2020-05-26T23.59.58.000+0200'. "
            'Partials are also supported, for example "2020-05-26"'
        ) from error


def _instant(date: str, time: str, *, complete: bool) -> int:
    day = _DATE.fullmatch(date)
    if day is None or (complete and day[3] is None):
        raise ValueError(f"'{date}' is not a date")
    clock, offset = _split_offset(time)
    padded = clock + _ZEROS[len(clock) :]
    parts = _TIME.fullmatch(padded)
    if parts is None:
        raise ValueError(f"'{time}' is not a time")
    hour, minute, second, millis = (int(part) for part in parts.groups())
    # Java reads 24:00 as the end of the day.
    days, hour = (1, 0) if (hour, minute, second, millis) == (24, 0, 0, 0) else (0, hour)
    moment = datetime(
        int(day[1]), int(day[2] or 1), int(day[3] or 1), hour, minute, second, millis * 1000, tzinfo=offset
    )
    return (moment + timedelta(days=days) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _split_offset(time: str) -> tuple[str, timezone]:
    match = _OFFSET.fullmatch(time)
    if match is None or match[2] in (None, "Z"):
        return (match[1] if match else time), UTC
    digits = match[2].replace(":", "")
    size = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:5]))
    return match[1], timezone(-size if digits[0] == "-" else size)
