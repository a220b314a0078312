"""Functions that mask letters and digits."""

from __future__ import annotations

import re
import unicodedata

from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.java.utf16 import units, whole

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")

_CLASSES = {"Lu": 0, "Ll": 1, "Nd": 2}
_DEFAULTS = ("X", "x", "n", "-")
_MASKS = "upper STRING, lower STRING, digit STRING, other STRING"
_COUNTED = ("(input STRING, count INT NOT NULL) -> STRING", f"(input STRING, count INT NOT NULL, {_MASKS}) -> STRING")

_SHOWN = {
    "input": "input STRING to be masked",
    "upper": "upper-case mask, or NULL to use default",
    "lower": "lower-case mask, or NULL to use default",
    "digit": "digit mask, or NULL to use default",
    "other": "mask for other characters, or NULL to use default",
}
"""ksqlDB shows descriptions as the names of the arguments."""


def _shown(count: str) -> dict[str, str]:
    return {**_SHOWN, "count": f"number of characters to {count}"}


def _masked(value: str, masks: tuple[str | None, ...]) -> str:
    """Mask UTF-16 units; the first half of a character counts as the whole of it, and its second half again."""
    if value.isascii():
        return "".join(_mask_of(character, masks) for character in value)
    pairs = (value[at : at + 2] if _PAIR.match(value, at) else value[at] for at in range(len(value)))
    return "".join(_mask_of(whole(pair), masks) for pair in pairs)


def _mask_of(character: str, masks: tuple[str | None, ...]) -> str:
    mask = masks[_CLASSES.get(unicodedata.category(character), 3)]
    return units(character) if mask is None else mask


def _checked(count: int | None, masks: tuple[str | None, ...]) -> tuple[int, tuple[str | None, ...]]:
    if count is None or count < 0:
        raise ValueError(f"the number of characters must not be negative: {count}")
    for mask in masks:
        if mask is not None and len(units(mask)) != 1:
            raise ValueError(f"a mask must be one character: '{mask}'")
    return count, masks or _DEFAULTS


@scalar(
    "(input STRING) -> STRING",
    f"(input STRING, {_MASKS}) -> STRING",
    nulls=Nulls.BODY,
    display_name="mask",
    shown_names=_SHOWN,
)
def mask(value: str | None, *masks: str | None) -> str | None:
    """Mask upper-case letters, lower-case letters, digits and all other characters; by default with X, x, n and -.

    A mask is one character, or NULL to leave the characters unchanged.

    Example: MASK('My Test $123') -> 'Xx-Xxxx--nnn'
    """
    _, used_masks = _checked(0, masks)
    return None if value is None else whole(_masked(units(value), used_masks))


def _partly(
    value: str | None, count: int | None, masks: tuple[str | None, ...], *, from_end: bool, first: bool
) -> str | None:
    """Mask the first or the second part of a string, of which one has `count` characters."""
    size, used_masks = _checked(count, masks)
    if value is None:
        return None
    given = units(value)
    at = max(0, len(given) - size) if from_end else size
    before, after = given[:at], given[at:]
    return whole(_masked(before, used_masks) + after if first else before + _masked(after, used_masks))


@scalar(*_COUNTED, nulls=Nulls.BODY, display_name="mask_left", shown_names=_shown("mask from the start"))
def mask_left(value: str | None, count: int | None, *masks: str | None) -> str | None:
    """Mask the first `count` characters, as MASK does.

    Example: MASK_LEFT('My Test $123', 4) -> 'Xx-Xest $123'
    """
    return _partly(value, count, masks, from_end=False, first=True)


@scalar(*_COUNTED, nulls=Nulls.BODY, display_name="mask_right", shown_names=_shown("mask before the end"))
def mask_right(value: str | None, count: int | None, *masks: str | None) -> str | None:
    """Mask the last `count` characters, as MASK does.

    Example: MASK_RIGHT('My Test $123', 4) -> 'My Test -nnn'
    """
    return _partly(value, count, masks, from_end=True, first=False)


@scalar(*_COUNTED, nulls=Nulls.BODY, display_name="mask_keep_left", shown_names=_shown("keep unmasked at the start"))
def mask_keep_left(value: str | None, count: int | None, *masks: str | None) -> str | None:
    """Mask all but the first `count` characters, as MASK does.

    Example: MASK_KEEP_LEFT('My Test $123', 4) -> 'My Txxx--nnn'
    """
    return _partly(value, count, masks, from_end=False, first=False)


@scalar(*_COUNTED, nulls=Nulls.BODY, display_name="mask_keep_right", shown_names=_shown("keep unmasked at the end"))
def mask_keep_right(value: str | None, count: int | None, *masks: str | None) -> str | None:
    """Mask all but the last `count` characters, as MASK does.

    Example: MASK_KEEP_RIGHT('My Test $123', 4) -> 'Xx-Xxxx-$123'
    """
    return _partly(value, count, masks, from_end=True, first=True)
