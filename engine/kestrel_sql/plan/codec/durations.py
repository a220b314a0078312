"""Codecs of durations and windows, each in its old and its new encoding."""

from __future__ import annotations

import decimal
import re
from typing import assert_never

from kestrel_sql.errors import NewerPlanError, PlanError
from kestrel_sql.plan.codec.sql_text import parsed
from kestrel_sql.plan.codec.values import (
    LONG_MAX,
    Wire,
    choice,
    mapping,
    only,
    optional,
    required,
    shorten,
    string,
    whole,
    wrong_type,
)
from kestrel_sql.plan.step import WindowType
from kestrel_sql.plan.steps.aggregates import WindowExpression
from kestrel_sql.sql.nodes.statements import (
    Emit,
    HoppingWindow,
    SessionWindow,
    TimeSpan,
    TumblingWindow,
    Window,
)
from kestrel_sql.sql.parse.parser import parse_window
from kestrel_sql.types.time_units import UNIT_MS

_NUMBER = r"(\d{1,18}"
_ISO = re.compile(
    rf"P(?=.)(?:{_NUMBER})D)?(?:T(?=.)(?:{_NUMBER})H)?(?:{_NUMBER})M)?(?:{_NUMBER}(?:\.\d{{1,9}})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_ISO_SECONDS = (86_400, 3_600, 60, 1)
_NANOS = decimal.Decimal("1E-9")
_MAX_DIGITS = 28


def _duration(value: object, path: str) -> int:
    """Read seconds, a number or an ISO-8601 string, into whole ms; fractions of a ms are cut off, as Java does."""
    seconds = _iso_seconds(string(value, path), path) if isinstance(value, str) else _seconds(value, path)
    if not 0 <= seconds <= LONG_MAX // 1000:
        raise PlanError("the duration is out of range", path=path)
    # scaleb and int only look at the digits, so a huge negative exponent costs nothing.
    return int(seconds.scaleb(3))


def _seconds(value: object, path: str) -> decimal.Decimal:
    if isinstance(value, float):
        value = decimal.Decimal(repr(value))
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        raise wrong_type("a number of seconds", value, path)
    if isinstance(value, int) and abs(value) > LONG_MAX:
        raise PlanError("the duration is out of range", path=path)
    seconds = decimal.Decimal(value)
    if not seconds.is_finite() or len(seconds.as_tuple().digits) > _MAX_DIGITS:
        raise PlanError("the duration is out of range", path=path)
    return seconds


def _iso_seconds(value: str, path: str) -> decimal.Decimal:
    match = _ISO.fullmatch(value)
    if match is None:
        raise PlanError(
            f"{shorten(value)!r} is not a duration", path=path, hint="write a number of seconds, or a string as PT1.5S"
        )
    parts = zip(match.groups(), _ISO_SECONDS, strict=True)
    return sum((decimal.Decimal(digits) * factor for digits, factor in parts if digits), decimal.Decimal(0))


def _write_duration(millis: int) -> decimal.Decimal:
    with decimal.localcontext(decimal.Context(prec=_MAX_DIGITS)):
        return decimal.Decimal(millis).scaleb(-3).quantize(_NANOS)


DURATION = Wire(_duration, _write_duration)
"""A duration: seconds with nine decimals in JSON, even in fields named `…Millis`; integer ms in Python."""


def _time_span(value: object, path: str) -> TimeSpan:
    document = mapping(value, path)
    only(document, ("value", "timeUnit"), path)
    unit = string(required(document, "timeUnit", path), f"{path}.timeUnit")
    if unit not in UNIT_MS:
        message = f"{shorten(unit)} is not one of {', '.join(UNIT_MS)}"
        raise NewerPlanError(message, path=f"{path}.timeUnit", part=f"the unit {shorten(unit)}")
    return TimeSpan(whole(required(document, "value", path), f"{path}.value", LONG_MAX // UNIT_MS[unit]), unit)


TIME_SPAN = Wire(_time_span, lambda span: {"value": span.value, "timeUnit": span.unit})

_OPTIONAL_SPAN = optional(TIME_SPAN)
_EMIT = optional(choice(Emit))
_WINDOW_TYPE = choice(WindowType)
_LENGTHS = {WindowType.TUMBLING: ("size",), WindowType.HOPPING: ("size", "advanceBy"), WindowType.SESSION: ("gap",)}


def _window_expression(value: object, path: str) -> WindowExpression:
    if isinstance(value, str):
        return WindowExpression(parsed(parse_window, value, path, "a window"))
    document = mapping(value, path)
    kind = _WINDOW_TYPE.decode(required(document, "windowType", path), f"{path}.windowType")
    only(document, ("windowType", *_LENGTHS[kind], "retention", "gracePeriod", "emitStrategy"), path)
    lengths = [_time_span(required(document, key, path), f"{path}.{key}") for key in _LENGTHS[kind]]
    retention = _OPTIONAL_SPAN.decode(document.get("retention"), f"{path}.retention")
    grace = _OPTIONAL_SPAN.decode(document.get("gracePeriod"), f"{path}.gracePeriod")
    for key, length in zip(_LENGTHS[kind], lengths, strict=True):
        if not length.value and kind is not WindowType.SESSION:
            raise PlanError("the length of a window must be greater than zero", path=f"{path}.{key}")
    return WindowExpression(
        _window(kind, lengths, retention, grace), _EMIT.decode(document.get("emitStrategy"), f"{path}.emitStrategy")
    )


def _window(kind: WindowType, lengths: list[TimeSpan], retention: TimeSpan | None, grace: TimeSpan | None) -> Window:
    match kind:
        case WindowType.TUMBLING:
            return TumblingWindow(lengths[0], retention, grace)
        case WindowType.HOPPING:
            return HoppingWindow(lengths[0], lengths[1], retention, grace)
        case WindowType.SESSION:
            return SessionWindow(lengths[0], retention, grace)


def _write_window_expression(expression: WindowExpression) -> dict[str, object]:
    window = expression.window
    match window:
        case TumblingWindow():
            kind, lengths = WindowType.TUMBLING, [window.size]
        case HoppingWindow():
            kind, lengths = WindowType.HOPPING, [window.size, window.advance]
        case SessionWindow():
            kind, lengths = WindowType.SESSION, [window.gap]
        case _:
            assert_never(window)
    return {
        "windowType": kind.value,
        **{key: TIME_SPAN.encode(length) for key, length in zip(_LENGTHS[kind], lengths, strict=True)},
        "retention": _OPTIONAL_SPAN.encode(window.retention),
        "gracePeriod": _OPTIONAL_SPAN.encode(window.grace),
        "emitStrategy": _EMIT.encode(expression.emit),
    }


WINDOW_EXPRESSION = Wire(_window_expression, _write_window_expression)
"""A window: an object since ksqlDB 7.3, before that the SQL text of a WINDOW clause (rules P4.4)."""
