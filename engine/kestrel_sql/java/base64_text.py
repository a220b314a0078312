"""Reads Base64 as Java's basic decoder does: padding may be left out, but what there is must be right."""

from __future__ import annotations

import base64
import re

PATTERN = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?"
"""A regular expression for Java and Python that matches whole texts of Base64."""

_TEXT = re.compile(PATTERN)


def decode_base64(text: str) -> bytes:
    """Decode a text.

    Raises:
        ValueError: the text is not Base64.
    """
    if _TEXT.fullmatch(text) is None:
        raise ValueError(f"not Base64: {text}")
    return base64.b64decode(text + "=" * (-len(text) % 4))
