"""Limits the size of values that functions create: sizes come from data, and one record must not end a query."""

from __future__ import annotations

MAX_SIZE = 1 << 24
"""The limit of characters or bytes of a value: 16 times the default limit of a Kafka record."""
MAX_ITEMS = 1 << 20
"""The limit of items of an array."""


class TooLargeError(ValueError):
    """The result of a function would exceed its limit."""


def check_size(size: int, limit: int = MAX_SIZE) -> None:
    """Reject a result of `size` characters, bytes or items.

    Raises:
        TooLargeError: the size exceeds the limit.
    """
    if size > limit:
        raise TooLargeError(f"the result would have {size} characters, bytes or items; at most {limit} are allowed")
