"""Converts the WINDOW clause into what the plan and the catalog store."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.errors import StatementError
from kestrel_sql.plan.step import WindowInfo, WindowType
from kestrel_sql.plan.steps.aggregates import WindowExpression
from kestrel_sql.sql.nodes.statements import Emit, HoppingWindow, SessionWindow, TimeSpan, TumblingWindow, Window
from kestrel_sql.types.time_units import DAY_MS


def window_expression(window: Window, emit: Emit | None) -> WindowExpression:
    """Return the window of an aggregation step; EMIT FINAL without GRACE PERIOD has a grace period of 0.

    Raises:
        StatementError: a length is invalid.
    """
    _check_lengths(window, emit)
    if emit is not Emit.FINAL:
        return WindowExpression(window)
    return WindowExpression(window if window.grace else replace(window, grace=TimeSpan(0, "MILLISECONDS")), Emit.FINAL)


def window_info(window: Window, emit: Emit | None) -> WindowInfo:
    """Return the window of an aggregation's result keys."""
    strategy = Emit.FINAL if emit is Emit.FINAL else Emit.CHANGES
    match window:
        case TumblingWindow(size):
            return WindowInfo(WindowType.TUMBLING, size.millis, strategy)
        case HoppingWindow(size):
            return WindowInfo(WindowType.HOPPING, size.millis, strategy)
        case _:
            return WindowInfo(WindowType.SESSION, None, strategy)


def _check_lengths(window: Window, emit: Emit | None) -> None:
    length = window.gap if isinstance(window, SessionWindow) else window.size
    if length.millis < (0 if isinstance(window, SessionWindow) else 1):
        raise StatementError("The length of a window must be greater than zero.", span=window.span)
    if isinstance(window, HoppingWindow) and not 0 < window.advance.millis <= window.size.millis:
        raise StatementError(
            "A hopping window must advance by more than zero and by no more than its size.", span=window.span
        )
    if window.retention is None:
        return
    default = 0 if emit is Emit.FINAL else max(DAY_MS - length.millis, 0)
    grace = default if window.grace is None else window.grace.millis
    if window.retention.millis < length.millis + grace:
        raise StatementError(
            "The retention period of a window must be no smaller than its size (or gap) plus its grace period: "
            f"{window.retention.millis} ms is less than {length.millis} ms + {grace} ms.",
            span=window.span,
            hint=None
            if window.grace
            else "without GRACE PERIOD, rows may be late until 24 hours after the start of their window",
        )
