"""Statements without what nobody else may read."""

from __future__ import annotations

import re

_SECRET = re.compile(r"('[^']*(?:password|secret|token|api\.key)[^']*'\s*=\s*)'(?:[^']|'')*'", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """Return a statement without the values of properties that hold secrets."""
    return _SECRET.sub(r"\1'*****'", text)
