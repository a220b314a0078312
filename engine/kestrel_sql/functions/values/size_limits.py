"""Limits the size of values that functions create: sizes come from data, and one record must not end a query."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof
from typing import Any, TypeVar

from kestrel_sql.java.regex.time_limit import check_work

MAX_SIZE = 1 << 24
"""The limit of characters or bytes of a value: 16 times the default limit of a Kafka record."""
MAX_ITEMS = 1 << 20
"""The limit of items of an array."""
_SHARE = 1 << 4
"""By what the work for one request divides these limits: everybody waits while a function computes with a large value.
"""
_SMALL = 1 << 10
"""Up to how many bytes a value does not count."""


T = TypeVar("T", bound=Sequence[Any])


class TooLargeError(ValueError):
    """The result of a function would exceed its limit."""


def check_size(size: int, limit: int = MAX_SIZE) -> None:
    """Reject a result of `size` characters, bytes or items.

    Raises:
        TooLargeError: the size exceeds the limit.
    """
    if size > limit:
        raise TooLargeError(f"the result would have {size} characters, bytes or items; at most {limit} are allowed")


def sized(value: T) -> T:
    """Return a result that is made of several values, if it is not too large.

    Raises:
        TooLargeError: it is.
    """
    check_size(len(value), MAX_ITEMS if isinstance(value, list) else MAX_SIZE)
    return value


def check_made(value: object, arguments: Sequence[object]) -> None:
    """Count a value that the work for one request has made; reject a large one that is larger than each argument.

    Raises:
        TooLargeError: it is too large.
        WorkTimeError: all of them take too much memory, or too long.
    """
    made = getsizeof(value)
    check_work(made if made > _SMALL else 0)
    if made > _SMALL and isinstance(value, str | bytes | list | dict):
        limit = (MAX_SIZE if isinstance(value, str | bytes) else MAX_ITEMS) // _SHARE
        if len(value) > limit:
            sizes = (len(each) for each in arguments if isinstance(each, str | bytes | list | dict))
            check_size(len(value), max(limit, *sizes))
