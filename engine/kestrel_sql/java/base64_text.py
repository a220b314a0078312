"""Reads Base64 as Java's basic decoder does, where padding may be left out, and as Apache's lenient one does."""

from __future__ import annotations

import base64
import re

PATTERN = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?"
"""A regular expression for Java and Python that matches whole texts of Base64."""

_TEXT = re.compile(PATTERN)
_NO_DIGITS = re.compile("[^A-Za-z0-9+/]+")
_FROM_URLS = str.maketrans("-_", "+/")


def decode_base64(text: str) -> bytes:
    """Decode a text.

    Raises:
        ValueError: the text is not Base64.
    """
    if _TEXT.fullmatch(text) is None:
        raise ValueError(f"not Base64: {text}")
    return base64.b64decode(text + "=" * (-len(text) % 4))


def decode_base64_digits(text: str) -> bytes:
    """Decode the digits before the first `=`, also those of Base64 for URLs; what is no digit does not count."""
    digits = _NO_DIGITS.sub("", text.partition("=")[0].translate(_FROM_URLS))
    # A digit alone has too few bits for a byte.
    whole = digits[: -1 if len(digits) % 4 == 1 else None]
    return base64.b64decode(whole + "=" * (-len(whole) % 4))
