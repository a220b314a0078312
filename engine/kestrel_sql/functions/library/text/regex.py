"""Regular expressions, with Java's syntax; a match that takes too long is an error for its record."""

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
    """Return what a group of the first match is, the whole match for group 0; NULL if there is no match or group.

    Example: REGEXP_EXTRACT('(.*) (.*)', 'hello there', 2) -> 'there'
    """
    _check_group(group)
    compiled = compile_pattern(pattern)
    found = compiled.search(value)
    return None if found is None or group > compiled.groups else found.group(group)


@python_scalar(
    f"({_TEXTS}) -> ARRAY<STRING>", f"({_TEXTS}, group INT) -> ARRAY<STRING>", display_name="regexp_extract_all"
)
@time_limited
def regexp_extract_all(pattern: str, value: str, group: int = 0) -> list[str | None] | None:
    """Return what a group of every match is; NULL if there is no such group, and for a group outside of a match.

    Example: REGEXP_EXTRACT_ALL('a(b)?', 'ab a', 1) -> ARRAY['b', NULL]
    """
    _check_group(group)
    compiled = compile_pattern(pattern)
    return None if group > compiled.groups else [found.group(group) for found in matches(compiled, value)]


@python_scalar("(input STRING, pattern STRING, replacement STRING) -> STRING", display_name="regexp_replace")
@time_limited
def regexp_replace(value: str, pattern: str, replacement: str) -> str:
    r"""Replace every match; `$1` in the replacement is a group, `\` takes the next character literally.

    Example: REGEXP_REPLACE('a1b22', '(\d+)', '<$1>') -> 'a<1>b<22>'
    """
    return replace_all(compile_pattern(pattern), value, replacement)


@python_scalar("(input STRING, pattern STRING) -> ARRAY<STRING>", display_name="regexp_split_to_array")
@time_limited
def regexp_split_to_array(value: str, pattern: str) -> list[str]:
    """Split at every match; empty parts stay, but not those at the end if the pattern matches the empty text.

    Example: REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+') -> ARRAY['a', 'b', 'c']
    """
    compiled = compile_pattern(pattern)
    return split(compiled, value) if not pattern or compiled.fullmatch("") else split_all(compiled, value)
