"""Parses paths of EXTRACTJSONFIELD: `$`, then any number of `.name`, `[3]` or `["any name"]`."""

from __future__ import annotations

import re
from functools import lru_cache

_STEP = re.compile(r'\.([\w:@]+)|\[(?:"((?:[^"\\]|\\["\\])*)"|(\w+))\]')
_ESCAPE = re.compile(r"\\(.)")
_CACHED = 1000
_MAX_LENGTH = 10_000


@lru_cache(maxsize=_CACHED)
def path_tokens(path: str) -> tuple[str, ...]:
    """Split a path into the names and indexes of its steps.

    Raises:
        ValueError: the path is malformed.
    """
    if not path.startswith("$") or len(path) > _MAX_LENGTH:
        raise ValueError(f"Invalid JSON path: '{path[:100]}'")
    tokens = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if not step:
            raise ValueError(f"Invalid JSON path: '{path[:100]}'")
        name, quoted, plain = step.groups()
        tokens.append(name or plain or _ESCAPE.sub(r"\1", quoted or ""))
        at = step.end()
    return tuple(tokens)
