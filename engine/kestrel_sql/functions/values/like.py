"""Translates LIKE patterns to regular expressions.

The string between two `%` is matched at its first occurrence, and an atomic group discards the others, so a pattern
backtracks over its last part only. That loses no match: a later occurrence leaves less for the rest of the pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray

_ANY = r"[^\n\r\x85\u2028\u2029]"
"""The expression for `_`, and repeated for `%`: Java's dot."""


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Compile a LIKE pattern for `fullmatch`.

    Raises:
        ValueError: the pattern ends with its escape character.
    """
    first, *middle = _parts(pattern, escape)
    if not middle:
        return re.compile(first)
    searched = "".join(f"(?>{_ANY}*?{part})" for part in middle[:-1] if part)
    return re.compile(f"{first}{searched}{_ANY}*{middle[-1]}")


def like_columns(array: ArrowArray, pattern: ArrowArray) -> ArrowArray | None:
    """Match a whole column with a constant pattern; on one line of ASCII Arrow's LIKE is the same."""
    if not isinstance(pattern, late.pa.Scalar) or "\\" in pattern.as_py() or not late.texts.is_plain(array, pattern):
        return None
    return late.pc.match_like(array, pattern.as_py())


def _parts(pattern: str, escape: str | None) -> list[str]:
    """Return the expressions of what stands between the `%`."""
    parts = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise ValueError("LIKE pattern must not end with escape character")
            parts[-1] += re.escape(following)
        elif character == "%":
            parts.append("")
        else:
            parts[-1] += _ANY if character == "_" else re.escape(character)
    return parts
