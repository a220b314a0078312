"""Windows of aggregates, as the plan and the catalog record them."""

from __future__ import annotations

from dataclasses import replace

from engine.plan.step import WindowInfo, WindowType
from engine.plan.steps.aggregates import WindowExpression
from engine.sql.statements import Emit, HoppingWindow, TimeSpan, TumblingWindow, Window


def window_expression(window: Window, emit: Emit | None) -> WindowExpression:
    """Record a window and its emission; EMIT FINAL without a grace period waits for no late rows."""
    if emit is not Emit.FINAL:
        return WindowExpression(window)
    return WindowExpression(window if window.grace else replace(window, grace=TimeSpan(0, "MILLISECONDS")), Emit.FINAL)


def window_info(window: Window, emit: Emit | None) -> WindowInfo:
    """Record the window of the keys that an aggregate gives."""
    strategy = Emit.FINAL if emit is Emit.FINAL else Emit.CHANGES
    match window:
        case TumblingWindow(size):
            return WindowInfo(WindowType.TUMBLING, size.millis, strategy)
        case HoppingWindow(size):
            return WindowInfo(WindowType.HOPPING, size.millis, strategy)
        case _:
            return WindowInfo(WindowType.SESSION, None, strategy)
