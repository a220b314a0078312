"""Functions of strings.

Native bodies count characters as Spark does, in code points. They differ from Java's UTF-16 units only for characters
beyond the Basic Multilingual Plane.
"""

from __future__ import annotations

import re

from sqlglot import exp

from kestrel_sql.functions.declaration import Checked, Nulls, python_scalar, scalar
from kestrel_sql.functions.library.spark_sql.expressions import (
    Tree,
    all_of,
    any_of,
    call,
    case,
    cast,
    if_,
    is_simple,
    let,
    not_,
    null,
    number,
    op,
    text,
)
from kestrel_sql.functions.library.spark_sql.size_limits import MAX_SIZE, too_large
from kestrel_sql.functions.library.text.like import quote


def _empty_bytes() -> Tree:
    return cast(text(""), "BINARY")


@scalar("(parts STRING...) -> STRING", nulls=Nulls.BODY, display_name="concat")
def concat(*parts: Tree) -> Tree:
    """Concatenate strings and skip NULLs, as `||` does.

    Example: CONCAT('a', NULL, 'b') -> 'ab'
    """
    return call("concat_ws", text(""), *parts)


@scalar("(parts BYTES...) -> BYTES", name="CONCAT", nulls=Nulls.BODY, display_name="concat")
def concat_bytes(*parts: Tree) -> Tree:
    """Concatenate bytes and skip NULLs.

    Example: FROM_BYTES(CONCAT(TO_BYTES('01', 'hex'), TO_BYTES('ff', 'hex')), 'hex') -> '01FF'
    """
    return call("concat", _empty_bytes(), *(call("coalesce", part, _empty_bytes()) for part in parts))


@scalar("(parts STRING...) -> STRING", nulls=Nulls.BODY, display_name="concat_ws")
def concat_ws(*parts: Tree) -> Checked:
    """Join strings with the first argument as separator and skip NULLs; NULL if the separator is NULL.

    Example: CONCAT_WS('-', 'a', NULL, 'b') -> 'a-b'
    """
    return Checked(null(), exp.true()) if len(parts) < 2 else Checked(call("concat_ws", *parts))


@python_scalar("(parts BYTES...) -> BYTES", name="CONCAT_WS", nulls=Nulls.BODY, display_name="concat_ws")
def concat_ws_bytes(*parts: bytes | None) -> bytes | None:
    """Join bytes with the first argument as separator and skip NULLs; NULL if the separator is NULL.

    Example: FROM_BYTES(CONCAT_WS(TO_BYTES('-', 'utf8'), TO_BYTES('a', 'utf8'), TO_BYTES('b', 'utf8')), 'utf8') -> 'a-b'
    """
    if len(parts) < 2:
        raise ValueError("CONCAT_WS expects at least two input arguments.")
    separator, *items = parts
    return None if separator is None else separator.join(item for item in items if item is not None)


@scalar("(n INT NOT NULL, texts STRING...) -> STRING", nulls=Nulls.BODY, display_name="elt")
def elt(n: Tree, *texts: Tree) -> Tree:
    """Return the `n`th string, counted from 1; NULL if there is none.

    Example: ELT(2, 'a', 'b') -> 'b'
    """
    return (
        case([(op(exp.EQ, n, number(i)), string) for i, string in enumerate(texts, start=1)], null())
        if texts
        else null()
    )


@scalar("(wanted STRING, texts STRING...) -> INT", nulls=Nulls.BODY, display_name="field")
def field(wanted: Tree, *texts: Tree) -> Tree:
    """Return the position of the first string that equals `wanted`, counted from 1; 0 if there is none.

    Example: FIELD('b', 'a', 'b') -> 2
    """
    return (
        case([(op(exp.EQ, wanted, string), number(i)) for i, string in enumerate(texts, start=1)], number(0))
        if texts
        else number(0)
    )


_RARE_BLANK = re.compile(r"[\t\n\x0b\f\r]")
_WORD = re.compile(r"(^|[ \t\n\x0b\f\r])([^ \t\n\x0b\f\r])")


@python_scalar("(input STRING) -> STRING", display_name="initcap")
def initcap(value: str) -> str:
    """Capitalise every word and make all other letters lower case; leading whitespace is dropped.

    Example: INITCAP(' the END') -> 'The End'
    """
    text = value.lower().lstrip(" \t\n\x0b\f\r")
    if " " not in text and text.isprintable():
        return text[:1].upper() + text[1:]
    if _RARE_BLANK.search(text):
        return _WORD.sub(lambda match: match.group(1) + match.group(2).upper(), text)
    return " ".join([word[:1].upper() + word[1:] for word in text.split(" ")])


@scalar("(input STRING, part STRING) -> INT", nulls=Nulls.BODY, display_name="instr")
def instr(value: Tree, part: Tree) -> Tree:
    """Return the position of the first `part`, counted from 1; 0 if there is none or an argument is NULL.

    Example: INSTR('CORPORATE FLOOR', 'OR') -> 2
    """
    return if_(op(exp.EQ, value, text("")), number(0), call("coalesce", call("instr", value, part), number(0)))


@python_scalar(
    "(input STRING, part STRING, position INT NOT NULL) -> INT",
    "(input STRING, part STRING, position INT NOT NULL, occurrence INT NOT NULL) -> INT",
    name="INSTR",
    nulls=Nulls.BODY,
    display_name="instr",
)
def instr_from(value: str | None, part: str | None, position: int | None, occurrence: int | None = 1) -> int:
    """Return the position of the `occurrence`th `part` from `position` on; a negative `position` searches backwards.

    Example: INSTR('CORPORATE FLOOR', 'OR', -3, 2) -> 2
    """
    if position is None or occurrence is None:
        raise ValueError("position and occurrence must not be NULL")
    if value is None or part is None or abs(position) > len(value):
        return 0
    if position < 0:
        return _last_ordinal(value[: len(value) + position + 1], part, occurrence) + 1
    return _ordinal(value, part, max(position - 1, 0), occurrence) + 1


def _ordinal(value: str, part: str, start: int, occurrence: int) -> int:
    at = start - 1
    for _ in range(occurrence):
        at = value.find(part, at + 1)
        if at < 0:
            return -1
    return at if occurrence > 0 else -1


def _last_ordinal(value: str, part: str, occurrence: int) -> int:
    end = len(value) + len(part)
    at = -1
    for _ in range(occurrence):
        at = value.rfind(part, 0, end)
        if at < 0:
            return -1
        end = at + len(part) - 1
    return at


@scalar("(input STRING) -> STRING", display_name="lcase")
def lcase(value: Tree) -> Tree:
    """Convert all letters to lower case.

    Example: LCASE('Ab') -> 'ab'
    """
    return call("lower", value)


@scalar("(input STRING) -> STRING", display_name="ucase")
def ucase(value: Tree) -> Tree:
    """Convert all letters to upper case.

    Example: UCASE('Ab') -> 'AB'
    """
    return call("upper", value)


@scalar("(input STRING) -> INT", name="LEN", display_name="len")
def len_text(value: Tree) -> Tree:
    """Return the length in UTF-16 units.

    Example: LEN('häß') -> 3
    """

    def units(v: Tree) -> Tree:
        wide = cast(op(exp.IntDiv, call("octet_length", call("encode", v, text("UTF-16BE"))), number(2)), "INT")
        return if_(op(exp.EQ, call("octet_length", v), call("length", v)), call("octet_length", v), wide)

    return let([value], units)


@scalar("(input BYTES) -> INT", name="LEN", display_name="len")
def len_bytes(value: Tree) -> Tree:
    """Return the number of bytes.

    Example: LEN(TO_BYTES('0102', 'hex')) -> 2
    """
    return call("octet_length", value)


def _padded(function: str, value: Tree, length: Tree, padding: Tree) -> Checked:
    nothing = any_of(op(exp.LT, length, number(0)), op(exp.EQ, call("octet_length", padding), number(0)))
    if isinstance(length, exp.Literal) and int(length.name) <= MAX_SIZE:
        if isinstance(padding, exp.Literal) and padding.name:
            return Checked(call(function, value, length, padding))
        return Checked(if_(nothing, null(), call(function, value, length, padding)))
    large = all_of(too_large(length), not_(nothing))
    unusable = any_of(nothing, too_large(length))
    return Checked(if_(unusable, null(), call(function, value, length, padding)), large, null_on_failure=True)


_PADS = (
    "(input STRING, length INT, padding STRING) -> STRING",
    "(input BYTES, length INT, padding BYTES) -> BYTES",
)


@scalar(*_PADS, display_name="LPad")
def lpad(value: Tree, length: Tree, padding: Tree) -> Checked:
    """Pad on the left with `padding`, or truncate on the right, to `length`.

    The result is NULL for a negative length or an empty padding.

    A length of more than 16777216 is an error.

    Example: LPAD('ab', 4, '-') -> '--ab'
    """
    return _padded("lpad", value, length, padding)


@scalar(*_PADS, display_name="RPad")
def rpad(value: Tree, length: Tree, padding: Tree) -> Checked:
    """Pad on the right with `padding`, or truncate, to `length`.

    The result is NULL for a negative length or an empty padding.

    A length of more than 16777216 is an error.

    Example: RPAD('ab', 4, '-') -> 'ab--'
    """
    return _padded("rpad", value, length, padding)


@scalar("(input STRING, old STRING, new STRING) -> STRING", display_name="replace")
def replace(value: Tree, old: Tree, new: Tree) -> Checked:
    """Replace every `old` by `new`; an empty `old` matches between all characters.

    A result of more than 16777216 characters is an error.

    Example: REPLACE('banana', 'an', 'o') -> 'booa'
    """
    arguments = [value, old, new]
    if isinstance(old, exp.Literal) and isinstance(new, exp.Literal) and old.name:
        growth = -(-len(new.name.encode()) // len(old.name.encode()))
        if growth <= 1:
            return Checked(_replacement(value, old, new))
        if growth <= _SMALL_GROWTH:
            large = too_large(call("octet_length", value), MAX_SIZE // growth)
            return Checked(if_(large, null(), _replacement(value, old, new)), large, null_on_failure=True)
    fails = let(arguments, _result_too_large)
    return Checked(
        let(arguments, lambda v, o, n: if_(_result_too_large(v, o, n), null(), _replacement(v, o, n))),
        fails,
        null_on_failure=True,
    )


_SMALL_GROWTH = 16
"""Up to this growth no string from a Kafka record becomes too large, so its own size decides."""


def _replacement(value: Tree, old: Tree, new: Tree) -> Tree:
    spread = call("concat", new, call("array_join", call("split", value, text("")), new), new)
    replaced = (op(exp.NEQ, old, text("")), call("replace", value, old, new))
    return (
        replaced[1]
        if isinstance(old, exp.Literal) and old.name
        else case([replaced, (op(exp.EQ, value, text("")), new)], spread)
    )


def _result_too_large(value: Tree, old: Tree, new: Tree) -> Tree:
    """Test if the result is too large; count occurrences only if the result could be too large at all."""
    size = cast(call("length", value), "BIGINT")
    upper_bound = op(exp.Mul, op(exp.Add, size, number(1)), op(exp.Add, call("length", new), number(1)))
    remaining_length = call("length", call("replace", value, old, text("")))
    count = op(exp.IntDiv, op(exp.Sub, size, remaining_length), call("greatest", call("length", old), number(1)))
    occurrences = if_(op(exp.EQ, old, text("")), op(exp.Add, size, number(1)), count)
    return if_(
        too_large(upper_bound), too_large(op(exp.Add, size, op(exp.Mul, occurrences, call("length", new)))), exp.false()
    )


@scalar("(input STRING, delimiter STRING) -> ARRAY<STRING>", display_name="split")
def split(value: Tree, delimiter: Tree) -> Tree:
    r"""Split at every `delimiter` and keep empty parts; an empty delimiter splits into characters.

    Example: SPLIT('a.b.', '.') -> ARRAY['a', 'b', '']
    """
    if isinstance(delimiter, exp.Literal) and delimiter.name:
        return call("split", value, text("".join(map(quote, delimiter.name))))
    # A quoted pattern ends at \E, so quote an \E in the delimiter separately.
    safe = call("replace", delimiter, text(r"\E"), text(r"\E\\E\Q"))
    pattern = call("concat", text(r"\Q"), safe, text(r"\E"))
    return if_(op(exp.EQ, delimiter, text("")), call("split", value, text("")), call("split", value, pattern))


@python_scalar("(input BYTES, delimiter BYTES) -> ARRAY<BYTES>", name="SPLIT", display_name="split")
def split_bytes(value: bytes, delimiter: bytes) -> list[bytes]:
    """Split at every `delimiter` and keep empty parts; an empty delimiter splits into single bytes.

    Example: FROM_BYTES(SPLIT(TO_BYTES('01ff02', 'hex'), TO_BYTES('ff', 'hex'))[2], 'hex') -> '02'
    """
    if delimiter:
        return value.split(delimiter)
    return [value[i : i + 1] for i in range(len(value))] or [b""]


@python_scalar(
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
    entries = (entry.split(kv_delimiter) for entry in value.split(entry_delimiter) if entry)
    return {entry[0]: entry[1] for entry in entries if len(entry) > 1}


_SUBSTRINGS = ("(input {0}, position INT) -> {0}", "(input {0}, position INT, length INT) -> {0}")


def _start(position: Tree, size: Tree) -> Tree:
    if isinstance(position, exp.Literal):
        return position
    from_end = call("greatest", op(exp.Add, op(exp.Add, size, position), number(1)), number(1))
    return if_(op(exp.LT, position, number(0)), from_end, position)


@scalar(*(form.format(name) for name in ("STRING", "BYTES") for form in _SUBSTRINGS), display_name="substring")
def substring(value: Tree, position: Tree, length: Tree | None = None) -> Tree:
    """Return the part from `position` on, at most `length` long; a negative `position` counts from the end, 0 means 1.

    Example: SUBSTRING('stream', -3, 2) -> 'ea'
    """
    start = _start(position, call("length", value))
    if length is None:
        return call("substring", value, start)
    return call(
        "substring", value, start, length if isinstance(length, exp.Literal) else call("greatest", length, number(0))
    )


_CONTROL = "".join(map(chr, range(33)))


@scalar("(input STRING) -> STRING", display_name="trim")
def trim(value: Tree) -> Tree:
    r"""Remove spaces and control characters at both ends.

    Example: TRIM('  a b ') -> 'a b'
    """
    trimmed = call("btrim", value, text(_CONTROL))
    if not is_simple(value):
        return trimmed
    # Most strings have nothing to trim; their first and last bytes show that faster than Spark's search.
    last = call("substring", cast(value, "BINARY"), number(-1))
    visible = all_of(op(exp.GTE, value, text("!")), op(exp.GTE, last, cast(text("!"), "BINARY")))
    return if_(visible, value, trimmed)


@scalar("(input STRING) -> STRING", display_name="md5")
def md5(value: Tree) -> Tree:
    """Return the MD5 hash of the UTF-8 bytes in lower-case hexadecimal.

    Example: MD5('abc') -> '900150983cd24fb0d6963f7d28e17f72'
    """
    return call("md5", cast(value, "BINARY"))
