"""Functions of regular expressions in Java's syntax; a match that takes too long is an error of its record."""

from __future__ import annotations

from kestrel_sql.functions.declaration import python_scalar
from kestrel_sql.java.regex.patterns import compile_pattern, matches, replace_all, split, split_all
from kestrel_sql.java.regex.time_limit import time_limited

_TEXTS = "pattern STRING, input STRING"


def _check_group(group: int) -> None:
    if group < 0:
        raise ValueError(f"group must not be negative: {group}")


@python_scalar(f"({_TEXTS}) -> STRING", f"({_TEXTS}, group INT) -> STRING", display_name="regexp_extract")
@time_limited
def regexp_extract(pattern: str, value: str, group: int = 0) -> str | None:
    """Return a group of the first match, the whole match by default; NULL if there is no match or no such group.

    Example: REGEXP_EXTRACT('(.*) (.*)', 'hello there', 2) -> 'there'
    """
    compiled = compile_pattern(pattern)
    match = compiled.search(value)
    if match is None:
        return None
    _check_group(group)
    return None if group > compiled.groups else match.group(group)


@python_scalar(
    f"({_TEXTS}) -> ARRAY<STRING>", f"({_TEXTS}, group INT) -> ARRAY<STRING>", display_name="regexp_extract_all"
)
@time_limited
def regexp_extract_all(pattern: str, value: str, group: int = 0) -> list[str | None] | None:
    """Return a group of every match, the whole match by default; NULL if there is no such group.

    A group that takes no part in a match is NULL. A negative group is an error where something matches.

    Example: REGEXP_EXTRACT_ALL('a(b)?', 'ab a', 1) -> ARRAY['b', NULL]
    """
    compiled = compile_pattern(pattern)
    found = list(matches(compiled, value))
    if found:
        _check_group(group)
    return None if group > compiled.groups else [match.group(group) for match in found]


@python_scalar("(input STRING, pattern STRING, replacement STRING) -> STRING", display_name="regexp_replace")
@time_limited
def regexp_replace(value: str, pattern: str, replacement: str) -> str:
    r"""Replace every match; `$1` in the replacement is a group, `\` makes the next character literal.

    Example: REGEXP_REPLACE('a1b22', '(\d+)', '<$1>') -> 'a<1>b<22>'
    """
    return replace_all(compile_pattern(pattern), value, replacement)


@python_scalar("(input STRING, pattern STRING) -> ARRAY<STRING>", display_name="regexp_split_to_array")
@time_limited
def regexp_split_to_array(value: str, pattern: str) -> list[str]:
    """Split at every match and keep empty parts, but drop those at the end if the pattern matches the empty string.

    Example: REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+') -> ARRAY['a', 'b', 'c']
    """
    compiled = compile_pattern(pattern)
    return split(compiled, value) if not pattern or compiled.fullmatch("") else split_all(compiled, value)
