"""Looks at the texts of Arrow arrays, and computes with them where that gives what Java's strings do.

Java counts UTF-16 units, and Arrow counts characters and may hold halves of surrogate pairs: both agree on ASCII.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]


def data_of(array: pa.Array) -> Bytes:
    """The bytes of all texts of an array, one after the other."""
    _, offsets, data = array.buffers()
    if data is None:
        return np.empty(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def is_ascii(*given: object) -> bool:
    """Whether all texts are ASCII."""
    return all(
        each.as_py().isascii() if isinstance(each, pa.Scalar) else data_of(each).max(initial=0) < 128 for each in given
    )


def is_whole(array: pa.Array, *, loses_null: bool, loses_empty: bool) -> bool:
    """Whether a format that loses NULL or what is empty, and halves of characters, gives an array back."""
    if pa.types.is_nested(array.type) or (loses_null and array.null_count):
        return False
    is_text = pa.types.is_string(array.type)
    if not (is_text or pa.types.is_binary(array.type)):
        return True
    return not (is_text and not is_ascii(array)) and not (loses_empty and pc.min(pc.binary_length(array)).as_py() == 0)


def is_plain(*given: object) -> bool:
    """Whether all texts consist of printable characters of ASCII, so that they have one line."""
    for each in given:
        data = np.frombuffer(each.as_py().encode(), np.uint8) if isinstance(each, pa.Scalar) else data_of(each)
        if data.min(initial=32) < 32 or data.max(initial=32) > 126:
            return False
    return True


def consists_of(array: pa.Array, characters: str, most: int) -> bool:
    """Whether all texts have some of these characters only, at least one and at most so many."""
    lengths = pc.min_max(pc.binary_length(array)).as_py()
    if lengths["min"] is None or lengths["min"] < 1 or lengths["max"] > most:
        return False
    allowed = np.zeros(256, np.bool_)
    allowed[np.frombuffer(characters.encode(), np.uint8)] = True
    return bool(allowed[data_of(array)].all())


def fits(size: int) -> bool:
    """Whether texts of so many characters all together are certainly none of those that are too large."""
    return size < _LARGE


_LARGE = 1 << 24
"""`MAX_SIZE` of `kestrel_sql.functions.values.size_limits`."""


def joined(separator: str, *given: object, null: str | None = None) -> pa.Array | None:
    """Join the texts of each row; a NULL is left out, or written as `null`."""
    size = sum(len(data_of(each)) for each in given if isinstance(each, pa.Array))
    size += sum(len(each.as_py()) for each in given if isinstance(each, pa.Scalar)) + len(given) * len(separator)
    if not is_ascii(*given) or not fits(size):
        return None
    if any(isinstance(each, pa.Array) and each.null_count for each in given):
        if null is None and separator:
            return None
        given = tuple(pc.fill_null(each, null or "") for each in given)
    return pc.binary_join_element_wise(*given, separator)


def plain_pattern(pattern: object) -> str | None:
    """Return a regular expression on which Java's engine and Arrow's agree over plain texts; None for others.

    Those have characters, classes, groups and greedy repetitions of single characters or classes only, and no
    alternative: the leftmost match is then the same, and so are its groups.
    """
    if not isinstance(pattern, pa.Scalar):
        return None
    text: str = pattern.as_py()
    return text if _PLAIN_PATTERN.fullmatch(text) else None


def is_atom(pattern: str) -> bool:
    """Whether a plain pattern is one character or class, perhaps repeated: its matches are found in one pass."""
    return re.fullmatch(_ATOM, pattern) is not None


_CLASS = r"\[\^?(?:[a-zA-Z0-9]-[a-zA-Z0-9]|[a-zA-Z0-9 @.,:;/_#=])+\]"
_ATOM = rf"(?:(?:[a-zA-Z0-9 @,:;/_#=-]|\.|{_CLASS})[+*]?)"
_PLAIN_PATTERN = re.compile(rf"\^?(?:{_ATOM}|\((?!\?){_ATOM}+\))+")
