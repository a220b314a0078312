"""Numbers with their nouns."""

from __future__ import annotations


def count_of(number: int, what: str) -> str:
    """A number with its noun: `1 record`, `2 records`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
