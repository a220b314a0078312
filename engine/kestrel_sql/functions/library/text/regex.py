"""Functions of regular expressions in Java's syntax; a match that takes too long is an error of its record."""

from __future__ import annotations

import re

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.functions.declaration import scalar
from kestrel_sql.functions.values.size_limits import MAX_SIZE
from kestrel_sql.java.regex import timed_matching

_TEXTS = "pattern STRING, input STRING"


def _plain(pattern: object, *texts: object) -> str | None:
    """Return a pattern whose matches in these texts are the same in Arrow; None for any other."""
    found: str | None = late.texts.plain_pattern(pattern)
    return found if found is not None and late.texts.is_plain(*texts) else None


def _extract_columns(pattern: ArrowArray, texts: ArrowArray, group: ArrowArray = None) -> ArrowArray | None:
    at = 0 if group is None else group.as_py() if isinstance(group, late.pa.Scalar) else -1
    plain = _plain(pattern, texts) if isinstance(texts, late.pa.Array) else None
    if plain is None or not 0 <= at <= plain.count("("):
        return None
    head, *groups = plain.split("(")
    named = "".join([head, *(f"({'?P<g>' if number == at else '?:'}{each}" for number, each in enumerate(groups, 1))])
    return late.pc.struct_field(late.pc.extract_regex(texts, f"(?P<g>{named})" if at == 0 else named), 0)


@scalar(
    f"({_TEXTS}) -> STRING",
    f"({_TEXTS}, group INT) -> STRING",
    display_name="regexp_extract",
    columns=_extract_columns,
)
def regexp_extract(pattern: str, value: str, group: int = 0) -> str | None:
    """Return a group of the first match, the whole match by default; NULL if there is no match or no such group.

    Example: REGEXP_EXTRACT('(.*) (.*)', 'hello there', 2) -> 'there'
    """
    found: str | None = timed_matching.extract(pattern, value, group)
    return found


def _extract_all_columns(pattern: ArrowArray, texts: ArrowArray, *group: ArrowArray) -> ArrowArray | None:
    plain = _plain(pattern, texts) if isinstance(texts, late.pa.Array) and not group else None
    if plain is None or not late.texts.is_atom(plain) or _is_empty(plain):
        return None
    find = re.compile(plain).findall
    listed = late.columns.to_list(texts)
    return late.pa.array([None if each is None else find(each) for each in listed], late.pa.list_(late.pa.string()))


@scalar(
    f"({_TEXTS}) -> ARRAY<STRING>",
    f"({_TEXTS}, group INT) -> ARRAY<STRING>",
    display_name="regexp_extract_all",
    columns=_extract_all_columns,
)
def regexp_extract_all(pattern: str, value: str, group: int = 0) -> list[str | None] | None:
    """Return a group of every match, the whole match by default; NULL if there is no such group.

    A group that takes no part in a match is NULL. A negative group is an error where something matches.

    Example: REGEXP_EXTRACT_ALL('a(b)?', 'ab a', 1) -> ARRAY['b', NULL]
    """
    found: list[str | None] | None = timed_matching.extract_all(pattern, value, group)
    return found


def _replace_columns(texts: ArrowArray, pattern: ArrowArray, replacement: ArrowArray) -> ArrowArray | None:
    plain = _plain(pattern, texts) if isinstance(texts, late.pa.Array) else None
    constant = replacement.as_py() if isinstance(replacement, late.pa.Scalar) else "$"
    if plain is None or "$" in constant or "\\" in constant or not constant.isascii() or _is_empty(plain):
        return None
    size = len(late.texts.data_of(texts)) * max(len(constant), 1)
    return late.pc.replace_substring_regex(texts, plain, constant) if late.texts.fits(size) else None


def _is_empty(pattern: str) -> bool:
    return timed_matching.is_match(pattern, "")


@scalar("(str STRING, regexp STRING, newStr STRING) -> STRING", display_name="regexp_replace", columns=_replace_columns)
def regexp_replace(value: str, pattern: str, replacement: str) -> str:
    r"""Replace every match; `$1` in the replacement is a group, `\` makes the next character literal.

    More than 16777216 characters in place of the matches are an error.

    Example: REGEXP_REPLACE('a1b22', '(\d+)', '<$1>') -> 'a<1>b<22>'
    """
    replaced: str = timed_matching.replace(value, pattern, replacement, MAX_SIZE)
    return replaced


def _split_columns(texts: ArrowArray, pattern: ArrowArray) -> ArrowArray | None:
    plain = _plain(pattern, texts) if isinstance(texts, late.pa.Array) else None
    # Arrow goes on behind a match as at the start of a text.
    return None if plain is None or "^" in plain[:1] or _is_empty(plain) else late.pc.split_pattern_regex(texts, plain)


@scalar("(string STRING, regexp STRING) -> ARRAY<STRING>", display_name="regexp_split_to_array", columns=_split_columns)
def regexp_split_to_array(value: str, pattern: str) -> list[str]:
    """Split at every match and keep empty parts, but drop those at the end if the pattern matches the empty string.

    Example: REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+') -> ARRAY['a', 'b', 'c']
    """
    parts: list[str] = timed_matching.split_text(value, pattern)
    return parts
