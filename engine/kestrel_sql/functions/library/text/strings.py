"""Functions of strings, which count in UTF-16 units: a character beyond U+FFFF has two (rule U4.9)."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray
from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.functions.values.equality import hash_map
from kestrel_sql.functions.values.size_limits import MAX_SIZE, check_size, sized
from kestrel_sql.java.hash_order import DEFAULT_CAPACITY
from kestrel_sql.java.letters import lower, upper
from kestrel_sql.java.numbers import JAVA_BLANKS, wrap_integer
from kestrel_sql.java.utf16 import units, whole


def _concat_columns(*parts: ArrowArray) -> ArrowArray:
    return late.texts.joined("", *parts)


@scalar("(inputs STRING...) -> STRING", nulls=Nulls.BODY, display_name="concat", columns=_concat_columns)
def concat(*parts: str | None) -> str:
    """Concatenate strings and skip NULLs, as `||` does.

    Example: CONCAT('a', NULL, 'b') -> 'ab'
    """
    return sized(whole("".join([part for part in parts if part is not None])))


@scalar("(inputs BYTES...) -> BYTES", name="CONCAT", nulls=Nulls.BODY, display_name="concat")
def concat_bytes(*parts: bytes | None) -> bytes:
    """Concatenate bytes and skip NULLs.

    Example: FROM_BYTES(CONCAT(TO_BYTES('01', 'hex'), TO_BYTES('ff', 'hex')), 'hex') -> '01FF'
    """
    return sized(b"".join([part for part in parts if part is not None]))


def _separated(parts: tuple[Any, ...]) -> Any:
    if len(parts) < 2:
        raise ValueError("CONCAT_WS expects at least two input arguments.")
    separator, *items = parts
    return None if separator is None else sized(separator.join([item for item in items if item is not None]))


def _concat_ws_columns(separator: ArrowArray, *parts: ArrowArray) -> ArrowArray | None:
    is_constant = isinstance(separator, late.pa.Scalar) and separator.as_py().isascii()
    return late.texts.joined(separator.as_py(), *parts) if parts and is_constant else None


@scalar("(inputs STRING...) -> STRING", nulls=Nulls.BODY, display_name="concat_ws", columns=_concat_ws_columns)
def concat_ws(*parts: str | None) -> str | None:
    """Join strings with the first argument as separator and skip NULLs; NULL if the separator is NULL.

    Example: CONCAT_WS('-', 'a', NULL, 'b') -> 'a-b'
    """
    joined = _separated(parts)
    return None if joined is None else whole(joined)


@scalar("(inputs BYTES...) -> BYTES", name="CONCAT_WS", nulls=Nulls.BODY, display_name="concat_ws")
def concat_ws_bytes(*parts: bytes | None) -> object:
    """Join bytes with the first argument as separator and skip NULLs; NULL if the separator is NULL.

    Example: FROM_BYTES(CONCAT_WS(TO_BYTES('-', 'utf8'), TO_BYTES('a', 'utf8'), TO_BYTES('b', 'utf8')), 'utf8') -> 'a-b'
    """
    return _separated(parts)


@scalar("(n INT NOT NULL, args STRING...) -> STRING", nulls=Nulls.BODY, display_name="elt")
def elt(n: int, *texts: str | None) -> str | None:
    """Return the `n`th string, counted from 1; NULL if there is none.

    Example: ELT(2, 'a', 'b') -> 'b'
    """
    return texts[n - 1] if 1 <= n <= len(texts) else None


@scalar("(str STRING, args STRING...) -> INT", nulls=Nulls.BODY, display_name="field")
def field(wanted: str | None, *texts: str | None) -> int:
    """Return the position of the first string that equals `str`, counted from 1; 0 if there is none.

    Example: FIELD('b', 'a', 'b') -> 2
    """
    return 0 if wanted is None or wanted not in texts else texts.index(wanted) + 1


_RARE_BLANK = re.compile(r"[\t\n\x0b\f\r]")
_WORD = re.compile(r"(^|[ \t\n\x0b\f\r])([^ \t\n\x0b\f\r])")


@scalar("(str STRING) -> STRING", display_name="initcap")
def initcap(value: str) -> str:
    """Capitalise every word and make all other letters lower case; leading whitespace is dropped.

    Example: INITCAP(' the END') -> 'The End'
    """
    text = lower(value).lstrip(" \t\n\x0b\f\r")
    if " " not in text and text.isprintable():
        return _capital(text)
    if _RARE_BLANK.search(text):
        return _WORD.sub(lambda match: match.group(1) + _capital(match.group(2)), text)
    return " ".join([_capital(word) for word in text.split(" ")])


def _capital(word: str) -> str:
    """Capitalise a word; half of a character beyond U+FFFF, which Java takes for the first letter, stays."""
    return word[:1].upper() + word[1:] if word[:1] <= "\uffff" else word


def _instr_columns(array: ArrowArray, part: ArrowArray, *places: ArrowArray) -> ArrowArray | None:
    constant = isinstance(part, late.pa.Scalar) and not places
    if not constant or not part.as_py() or not late.texts.is_ascii(array, part):
        return None
    return late.pc.fill_null(late.pc.add(late.pc.find_substring(array, part.as_py()), late.pa.scalar(1, "int32")), 0)


@scalar(
    "(str STRING, substring STRING) -> INT",
    "(str STRING, substring STRING, position INT NOT NULL) -> INT",
    "(str STRING, substring STRING, position INT NOT NULL, occurrence INT NOT NULL) -> INT",
    nulls=Nulls.BODY,
    display_name="instr",
    columns=_instr_columns,
)
def instr(text: str | None, part: str | None, position: int | None = 1, occurrence: int | None = 1) -> int:
    """Return the position of the `occurrence`th `substring` from `position` on, counted from 1; 0 if there is none.

    A negative `position` searches backwards, 0 finds nothing. A NULL string gives 0. All occurrences of an empty `part`
    are the first one.

    Example: INSTR('CORPORATE FLOOR', 'OR', -3, 2) -> 2
    """
    if position is None or occurrence is None:
        raise ValueError("position and occurrence must not be NULL")
    if text is None or part is None:
        return 0
    value, wanted = units(text), units(part)
    if not part:
        occurrence = min(occurrence, 1)
    if position == -(2**31) and not part and occurrence > 0:
        # This number has no negative in Java, so that what is too far away is not noticed.
        return len(value) - 2**31 + 2
    if position == 0 or abs(position) > len(value):
        return 0
    if position < 0:
        # ksqlDB searches in the reversed string, in which a character keeps the order of its halves.
        at = _ordinal(units(text[::-1]), units(part[::-1]), -position - 1, occurrence)
        return 0 if at < 0 else len(value) - at - len(wanted) + 1
    return _ordinal(value, wanted, position - 1, occurrence) + 1


def _ordinal(value: str, part: str, start: int, occurrence: int) -> int:
    at = start - 1
    for _ in range(occurrence):
        at = value.find(part, at + 1)
        if at < 0:
            return -1
    return at if occurrence > 0 else -1


def _lcase_columns(array: ArrowArray) -> ArrowArray | None:
    return late.pc.ascii_lower(array) if late.texts.is_ascii(array) else None


@scalar("(input STRING) -> STRING", display_name="lcase", columns=_lcase_columns)
def lcase(value: str) -> str:
    """Convert all letters to lower case.

    Example: LCASE('Ab') -> 'ab'
    """
    return lower(value)


def _ucase_columns(array: ArrowArray) -> ArrowArray | None:
    return late.pc.ascii_upper(array) if late.texts.is_ascii(array) else None


@scalar("(input STRING) -> STRING", display_name="ucase", columns=_ucase_columns)
def ucase(value: str) -> str:
    """Convert all letters to upper case.

    Example: UCASE('Ab') -> 'AB'
    """
    return upper(value)


def _len_columns(array: ArrowArray) -> ArrowArray | None:
    return late.pc.binary_length(array) if late.texts.is_ascii(array) else None


@scalar("(input STRING) -> INT", name="LEN", display_name="len", columns=_len_columns)
def len_text(value: str) -> int:
    """Return the length in UTF-16 units.

    Example: LEN('häß') -> 3
    """
    return len(units(value))


@scalar("(input BYTES) -> INT", name="LEN", display_name="len")
def len_bytes(value: bytes) -> int:
    """Return the number of bytes.

    Example: LEN(TO_BYTES('0102', 'hex')) -> 2
    """
    return len(value)


def _padding(value: str | bytes, length: int, padding: str | bytes) -> Any:
    """Return what fills `value` up to `length`; None if nothing can."""
    if length < 0 or not padding:
        return None
    check_size(length)
    missing = max(0, length - len(value))
    return (padding * -(-missing // len(padding)))[:missing]


_PADS = (
    "(input STRING, targetLen INT, padding STRING) -> STRING",
    "(input BYTES, targetLen INT, padding BYTES) -> BYTES",
)


def _lpad_columns(array: ArrowArray, length: ArrowArray, padding: ArrowArray) -> ArrowArray:
    return _padded(array, length, padding, "ascii_lpad")


def _rpad_columns(array: ArrowArray, length: ArrowArray, padding: ArrowArray) -> ArrowArray:
    return _padded(array, length, padding, "ascii_rpad")


def _padded(array: ArrowArray, length: ArrowArray, padding: ArrowArray, kernel: str) -> ArrowArray | None:
    """Pad texts of ASCII that are not longer than wanted with one character."""
    constants = all(isinstance(each, late.pa.Scalar) for each in (length, padding)) and array.type == late.pa.string()
    if not constants or len(padding.as_py()) != 1 or not late.texts.is_ascii(array, padding):
        return None
    most = late.pc.max(late.pc.binary_length(array)).as_py() or 0
    if not most <= length.as_py() <= MAX_SIZE:
        return None
    return getattr(late.pc, kernel)(array, length.as_py(), padding.as_py())


@scalar(*_PADS, display_name="LPad", columns=_lpad_columns)
def lpad(value: str | bytes, length: int, padding: str | bytes) -> str | bytes | None:
    """Pad on the left with `padding`, or truncate on the right, to `targetLen`.

    The result is NULL for a negative length or an empty padding.

    A length of more than 16777216 is an error.

    Example: LPAD('ab', 4, '-') -> '--ab'
    """
    given = _split(value)
    filling = _padding(given, length, _split(padding))
    return None if filling is None else _joined((filling + given)[:length])


@scalar(*_PADS, display_name="RPad", columns=_rpad_columns)
def rpad(value: str | bytes, length: int, padding: str | bytes) -> str | bytes | None:
    """Pad on the right with `padding`, or truncate, to `targetLen`.

    The result is NULL for a negative length or an empty padding.

    A length of more than 16777216 is an error.

    Example: RPAD('ab', 4, '-') -> 'ab--'
    """
    given = _split(value)
    filling = _padding(given, length, _split(padding))
    return None if filling is None else _joined((given + filling)[:length])


def _split(value: str | bytes) -> Any:
    return units(value) if isinstance(value, str) else value


def _joined(value: str | bytes) -> str | bytes:
    return whole(value) if isinstance(value, str) else value


def _replace_columns(array: ArrowArray, old: ArrowArray, new: ArrowArray) -> ArrowArray | None:
    if not all(isinstance(each, late.pa.Scalar) for each in (old, new)) or not late.texts.is_ascii(array, old, new):
        return None
    size = len(late.texts.data_of(array)) * max(len(new.as_py()), 1)
    if not old.as_py() or not late.texts.fits(size):
        return None
    return late.pc.replace_substring(array, old.as_py(), new.as_py())


@scalar("(str STRING, oldStr STRING, newStr STRING) -> STRING", display_name="replace", columns=_replace_columns)
def replace(value: str, old: str, new: str) -> str:
    """Replace every `oldStr` by `newStr`; an empty `oldStr` matches between all characters.

    A result of more than 16777216 characters is an error.

    Example: REPLACE('banana', 'an', 'o') -> 'booa'
    """
    given, wanted, other = units(value), units(old), units(new)
    check_size(len(given) + (given.count(wanted) if wanted else len(given) + 1) * len(other))
    return whole(given.replace(wanted, other))


def _split_columns(array: ArrowArray, delimiter: ArrowArray) -> ArrowArray | None:
    if not isinstance(delimiter, late.pa.Scalar) or not delimiter.as_py() or not late.texts.is_ascii(array, delimiter):
        return None
    return late.pc.split_pattern(array, delimiter.as_py())


@scalar("(string STRING, delimiter STRING) -> ARRAY<STRING>", display_name="split", columns=_split_columns)
def split(value: str, delimiter: str) -> list[str]:
    r"""Split at every `delimiter` and keep empty parts; an empty delimiter splits into characters.

    Example: SPLIT('a.b.', '.') -> ARRAY['a', 'b', '']
    """
    given = units(value)
    return [whole(part) for part in given.split(units(delimiter))] if delimiter else list(map(whole, given)) or [""]


@scalar("(bytes BYTES, delimiter BYTES) -> ARRAY<BYTES>", name="SPLIT", display_name="split")
def split_bytes(value: bytes, delimiter: bytes) -> list[bytes]:
    """Split at every `delimiter` and keep empty parts; an empty delimiter splits into single bytes.

    As in ksqlDB, a delimiter of several bytes is found by its first byte once more bytes than it has are before it.

    Example: FROM_BYTES(SPLIT(TO_BYTES('01ff02', 'hex'), TO_BYTES('ff', 'hex'))[2], 'hex') -> '02'
    """
    if not delimiter:
        return [value[i : i + 1] for i in range(len(value))] or [b""]
    size, start, at = len(delimiter), 0, 0
    parts = []
    while at + size <= len(value):
        # ksqlDB compares the rest of the delimiter with the bytes at its own place, not behind its first byte.
        if value[at] == delimiter[0] and value[at:size] == delimiter[at:]:
            parts.append(value[start:at])
            start = at + size
        at = max(at + 1, start)
    return [*parts, value[start:]]


@scalar(
    "(input STRING, entryDelimiter STRING, kvDelimiter STRING) -> MAP<STRING, STRING>",
    nulls=Nulls.BODY,
    display_name="split_to_map",
)
def split_to_map(value: str | None, entry_delimiter: str | None, kv_delimiter: str | None) -> dict[str, str] | None:
    """Read a map from entries of key and value; entries without a `kvDelimiter` are skipped.

    The last of equal keys wins. The result is NULL if a delimiter is NULL or empty, or if both are equal.

    Example: SPLIT_TO_MAP('a=1;b=2', ';', '=')['b'] -> '2'
    """
    if value is None or not entry_delimiter or not kv_delimiter or entry_delimiter == kv_delimiter:
        return None
    pair = units(kv_delimiter)
    entries = (entry.split(pair) for entry in units(value).split(units(entry_delimiter)) if entry)
    merged = {whole(entry[0]): whole(entry[1]) for entry in entries if len(entry) > 1}
    # Java's `merge` puts a new key before the others of its bucket.
    return hash_map(dict(reversed(merged.items())), DEFAULT_CAPACITY)


def _substring_columns(array: ArrowArray, position: ArrowArray, length: ArrowArray = None) -> ArrowArray | None:
    constants = [each for each in (position, length) if each is not None]
    if not all(isinstance(each, late.pa.Scalar) for each in constants) or array.type != late.pa.string():
        return None
    at, size = position.as_py(), None if length is None else length.as_py()
    if not late.texts.is_ascii(array) or (size is not None and not (at >= 0 and 0 <= size <= MAX_SIZE >= at)):
        return None
    start = at if at < 0 else max(at - 1, 0)
    return late.pc.utf8_slice_codeunits(array, start, None if size is None else start + size)


@scalar(
    "(str STRING, pos INT) -> STRING",
    "(str STRING, pos INT, length INT) -> STRING",
    "(bytes BYTES, pos INT) -> BYTES",
    "(bytes BYTES, pos INT, length INT) -> BYTES",
    display_name="substring",
    columns=_substring_columns,
)
def substring(value: str | bytes, position: int, length: int | None = None) -> str | bytes:
    """Return the part from `pos` on, at most `length` long; a negative `pos` counts from the end, 0 means 1.

    Example: SUBSTRING('stream', -3, 2) -> 'ea'
    """
    given = _split(value)
    start = max(len(given) + position, 0) if position < 0 else max(position - 1, 0)
    # A sum beyond 32 bits is negative in Java, and ends before the part begins.
    end = len(given) if length is None else wrap_integer(start + length, 32)
    return _joined(given[start : max(start, end)])


def _trim_columns(array: ArrowArray) -> ArrowArray | None:
    return late.pc.ascii_trim(array, " ") if late.texts.is_plain(array) else None


@scalar("(input STRING) -> STRING", display_name="trim", columns=_trim_columns)
def trim(value: str) -> str:
    r"""Remove spaces and control characters at both ends.

    Example: TRIM('  a b ') -> 'a b'
    """
    return value.strip(JAVA_BLANKS)


@scalar("(s STRING) -> STRING", display_name="md5")
def md5(value: str) -> str:
    """Return the MD5 hash of the UTF-8 bytes in lower-case hexadecimal.

    Example: MD5('abc') -> '900150983cd24fb0d6963f7d28e17f72'
    """
    return hashlib.md5(value.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
