"""Turns names of users into parts of paths."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[/\\%\x00-\x1f]|^\.")


def path_part(name: str) -> str:
    """Give a name as one part of a path, which leads neither up nor down.

    Characters that could are percent-encoded (rules L6.23).
    """
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", name)
