"""How large a value that a function makes may be; sizes come from data, and one record must not end a query."""

from __future__ import annotations

from sqlglot import exp

from kestrel_sql.functions.library.spark_sql.expressions import Tree, call, number, op

MAX_SIZE = 1 << 24
"""The most characters or bytes of one value: sixteen times what a Kafka record holds unless it is told otherwise."""
MAX_ITEMS = 1 << 20
"""The most items of one array."""


def check_size(size: int, most: int = MAX_SIZE) -> None:
    """Refuse a result of so many characters, bytes or items.

    Raises:
        ValueError: it would be larger than `most`.
    """
    if size > most:
        raise ValueError(f"the result would have {size} characters, bytes or items, at most {most} are allowed")


def too_large(size: Tree, most: int = MAX_SIZE) -> Tree:
    """Whether a result of so many characters, bytes or items is refused; never NULL."""
    return call("coalesce", op(exp.GT, size, number(most)), exp.false())
