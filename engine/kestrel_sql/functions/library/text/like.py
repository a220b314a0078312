r"""Translates LIKE patterns to regular expressions that Java and Python interpret alike.

The string between two `%` is matched at its first occurrence, and an atomic group discards the others, so a pattern
backtracks over its last part only. That loses no match: a later occurrence leaves less for the rest of the pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kestrel_sql.functions.declaration import python_scalar

ANY = r"[^\n\r\x85\u2028\u2029]"
"""The expression for `_`, and repeated for `%`: Java's dot."""

LINE_ENDS = ("\n", "\r", "\x85", "\u2028", "\u2029")
"""The characters that `ANY` does not match."""


def plain_part(pattern: str, escape: str | None) -> tuple[bool, str, bool] | None:
    """Split a pattern that searches for one string: a leading `%`, the string, and a trailing `%`.

    Return None for any other pattern, and for a string with a line end, which `%` does not match.
    """
    part = pattern.removeprefix("%").removesuffix("%")
    if any(special in part for special in ("%", "_", *LINE_ENDS)) or not part or (escape and escape in pattern):
        return None
    return pattern.startswith("%"), part, pattern.endswith("%")


def like_regex(pattern: str, escape: str | None, any_: str = ANY) -> str | None:
    """Return the regular expression of a LIKE pattern, without anchors; None if the escape character is the last one.

    `any_` is the expression for `_`. In Java, its dot is much faster than the character class that works in both
    languages.
    """
    parts = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                return None
            parts[-1] += quote(following)
        elif character == "%":
            parts.append("")
        else:
            parts[-1] += any_ if character == "_" else quote(character)
    first, *middle = parts
    if not middle:
        return first
    searched = "".join(f"(?>{any_}*?{part})" for part in middle[:-1] if part)
    return f"{first}{searched}{any_}*{middle[-1]}"


@python_scalar("(pattern STRING, escape STRING) -> STRING")
def escaped_like_regex(pattern: str, escape: str) -> str:
    """Return the anchored regular expression of a LIKE pattern for Java; it is not a function of the language."""
    return f"\\A(?:{like_pattern(pattern, escape).pattern})\\z"


def quote(character: str) -> str:
    """Escape a character that is special in regular expressions."""
    return "\\" + character if character in "\\.[]{}()*+?^$|" else character


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Compile a LIKE pattern for `fullmatch`.

    Raises:
        ValueError: the pattern ends with its escape character.
    """
    regex = like_regex(pattern, escape)
    if regex is None:
        raise ValueError("LIKE pattern must not end with escape character")
    return re.compile(regex)
