"""Names columns inside joins, and joins names for messages."""

from __future__ import annotations

from collections.abc import Iterable

SYNTHETIC_KEY = "ROWKEY"


def prefixed(alias: str, column: str) -> str:
    """Return the name of a source's column inside a join: `alias_column`."""
    return f"{alias}_{column}"


def and_list(items: Iterable[str]) -> str:
    """Join items as `A, B and C`."""
    return _joined(list(items), "and")


def or_list(items: Iterable[str]) -> str:
    """Join items as `A, B or C`."""
    return _joined(list(items), "or")


def _joined(items: list[str], last: str) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"
