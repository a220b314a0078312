"""Functions of regular expressions in Java's syntax; a match that takes too long is an error of its record."""

from __future__ import annotations

from kestrel_sql.functions.declaration import scalar
from kestrel_sql.functions.values.size_limits import MAX_SIZE
from kestrel_sql.java.regex import calls

_TEXTS = "pattern STRING, input STRING"


@scalar(f"({_TEXTS}) -> STRING", f"({_TEXTS}, group INT) -> STRING", display_name="regexp_extract")
def regexp_extract(pattern: str, value: str, group: int = 0) -> str | None:
    """Return a group of the first match, the whole match by default; NULL if there is no match or no such group.

    Example: REGEXP_EXTRACT('(.*) (.*)', 'hello there', 2) -> 'there'
    """
    found: str | None = calls.extract(pattern, value, group)
    return found


@scalar(f"({_TEXTS}) -> ARRAY<STRING>", f"({_TEXTS}, group INT) -> ARRAY<STRING>", display_name="regexp_extract_all")
def regexp_extract_all(pattern: str, value: str, group: int = 0) -> list[str | None] | None:
    """Return a group of every match, the whole match by default; NULL if there is no such group.

    A group that takes no part in a match is NULL. A negative group is an error where something matches.

    Example: REGEXP_EXTRACT_ALL('a(b)?', 'ab a', 1) -> ARRAY['b', NULL]
    """
    found: list[str | None] | None = calls.extract_all(pattern, value, group)
    return found


@scalar("(str STRING, regexp STRING, newStr STRING) -> STRING", display_name="regexp_replace")
def regexp_replace(value: str, pattern: str, replacement: str) -> str:
    r"""Replace every match; `$1` in the replacement is a group, `\` makes the next character literal.

    More than 16777216 characters in place of the matches are an error.

    Example: REGEXP_REPLACE('a1b22', '(\d+)', '<$1>') -> 'a<1>b<22>'
    """
    replaced: str = calls.replace(value, pattern, replacement, MAX_SIZE)
    return replaced


@scalar("(string STRING, regexp STRING) -> ARRAY<STRING>", display_name="regexp_split_to_array")
def regexp_split_to_array(value: str, pattern: str) -> list[str]:
    """Split at every match and keep empty parts, but drop those at the end if the pattern matches the empty string.

    Example: REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+') -> ARRAY['a', 'b', 'c']
    """
    parts: list[str] = calls.split_text(value, pattern)
    return parts
