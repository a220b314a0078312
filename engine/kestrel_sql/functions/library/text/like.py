r"""LIKE patterns as regular expressions that Java and Python read alike.

A text between two `%` is looked for once, at its first place, and an atomic group forgets the others: no pattern
backtracks over more than its last part. That finds all matches, since a later place leaves less of the text for the rest.
"""

from __future__ import annotations

import re
from functools import lru_cache

ANY = r"[^\n\r\x85\u2028\u2029]"
"""What `_` stands for, and `%` for any number of: Java's dot."""

LINE_ENDS = ("\n", "\r", "\x85", "\u2028", "\u2029")
"""The characters that `ANY` is not."""


def plain_part(pattern: str, escape: str | None) -> tuple[bool, str, bool] | None:
    """Take a pattern that looks for one text apart: whether a `%` stands before it, the text, and whether one stands behind it.

    None for all other patterns, and for a text with a line end, which `%` is not.
    """
    part = pattern.removeprefix("%").removesuffix("%")
    if any(special in part for special in ("%", "_", *LINE_ENDS)) or not part or (escape and escape in pattern):
        return None
    return pattern.startswith("%"), part, pattern.endswith("%")


def like_regex(pattern: str, escape: str | None, any_: str = ANY) -> str | None:
    """Give the regular expression of a LIKE pattern, without anchors; None if the pattern ends with its escape character.

    `any_` matches what `_` stands for: in Java its dot does, much faster than the class of characters that both languages know.
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


def quote(character: str) -> str:
    """Take its special meaning from a character."""
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
