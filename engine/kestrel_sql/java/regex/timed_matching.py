"""Matching as single calls with a time limit: patterns and values come from users and data."""

from __future__ import annotations

import re

from kestrel_sql.java.regex.patterns import compile_pattern, matches, replace_all, split, split_all
from kestrel_sql.java.regex.time_limit import time_limited
from kestrel_sql.java.utf16 import units, whole


@time_limited
def extract(pattern: str, value: str, group: int) -> str | None:
    """Return a group of the first match; None if there is no match or no such group."""
    compiled = compile_pattern(pattern)
    match = compiled.search(value)
    if match is None:
        return None
    _check_group(group)
    return None if group > compiled.groups else match.group(group)


@time_limited
def extract_all(pattern: str, value: str, group: int) -> list[str | None] | None:
    """Return a group of every match; None if there is no such group."""
    compiled = compile_pattern(pattern)
    found = list(matches(compiled, _searched(compiled, value)))
    if found:
        _check_group(group)
    return None if group > compiled.groups else [match.group(group) for match in found]


@time_limited
def replace(value: str, pattern: str, replacement: str, most: int) -> str:
    """Replace every match as `String.replaceAll` does, with at most so many characters."""
    compiled = compile_pattern(pattern)
    return whole(replace_all(compiled, _searched(compiled, value), replacement, most))


@time_limited
def split_text(value: str, pattern: str) -> list[str]:
    """Split at every match and keep empty parts, but drop those at the end if the pattern matches the empty string."""
    compiled = compile_pattern(pattern)
    cut = split if not pattern or compiled.fullmatch("") else split_all
    return [whole(part) for part in cut(compiled, _searched(compiled, value))]


@time_limited
def is_match(pattern: str, value: str) -> bool:
    """Whether a pattern matches a whole value."""
    return compile_pattern(pattern).fullmatch(value) is not None


@time_limited
def groups(pattern: str, value: str) -> list[str | None] | None:
    """Return the groups of the first match of a pattern in Python's syntax; None if there is no match."""
    match = re.compile(pattern).search(value)
    return None if match is None else list(match.groups())


def _searched(compiled: re.Pattern[str], value: str) -> str:
    """Return the UTF-16 units of a string for a pattern that matches between two of them."""
    return units(value) if compiled.fullmatch("") else value


def _check_group(group: int) -> None:
    if group < 0:
        raise ValueError(f"group must not be negative: {group}")
