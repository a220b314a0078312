"""Upper and lower case of texts in pieces: one call over a long text would keep all other threads from Python."""

from __future__ import annotations

_PIECE = 1 << 14


def upper(text: str) -> str:
    """Return a text in upper case."""
    return text.upper() if len(text) <= _PIECE else "".join([piece.upper() for piece in _pieces(text)])


def lower(text: str) -> str:
    """Return a text in lower case; that of a sigma depends on what is beside it."""
    if len(text) <= _PIECE or "\u03a3" in text:
        return text.lower()
    return "".join([piece.lower() for piece in _pieces(text)])


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
