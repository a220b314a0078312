"""Functions of lists of headers, or of any KEY and VALUE entries (rules K1.6)."""

from __future__ import annotations

from sqlglot import exp

from kestrel_sql.functions.declaration import Checked, scalar
from kestrel_sql.functions.library.spark_sql.arrays import ITEM, lambda_, name, part
from kestrel_sql.functions.library.spark_sql.expressions import (
    Tree,
    all_of,
    any_of,
    call,
    cast,
    is_in,
    is_null,
    let,
    not_,
    number,
    op,
)

_ENTRIES = "ARRAY<STRUCT<KEY STRING, VALUE T>>"
_UTF8 = ("utf8", "utf-8")


@scalar(f"(entries {_ENTRIES}) -> MAP<STRING, T>")
def map_build(entries: Tree) -> Tree:
    """Build a map from a list of entries; the last of equal keys wins, and NULL entries and keys are skipped.

    Example: MAP_BUILD(ARRAY[STRUCT(KEY := 'a', VALUE := 1), STRUCT(KEY := 'a', VALUE := 2)]) -> MAP('a' := 2)
    """
    usable = all_of(not_(is_null(name(ITEM))), not_(is_null(part(name(ITEM), "KEY"))))
    pair = call("struct", part(name(ITEM), "KEY"), part(name(ITEM), "VALUE"))
    return call(
        "map_from_entries", call("transform", call("filter", entries, lambda_([ITEM], usable)), lambda_([ITEM], pair))
    )


@scalar(f"(entries {_ENTRIES}, key STRING) -> T")
def header_value(entries: Tree, key: Tree) -> Tree:
    """Return the value of the last entry with the key, or NULL if there is none; keys are case-sensitive.

    Example: HEADER_VALUE(ARRAY[STRUCT(KEY := 'a', VALUE := 1), STRUCT(KEY := 'a', VALUE := 2)], 'a') -> 2
    """
    return let([entries, key], lambda every, k: part(call("element_at", _having(every, k), number(-1)), "VALUE"))


@scalar(f"(entries {_ENTRIES}, key STRING) -> ARRAY<T>")
def header_values(entries: Tree, key: Tree) -> Tree:
    """Return the values of all entries with the key, in their order; an empty array if there are none.

    Example: HEADER_VALUES(ARRAY[STRUCT(KEY := 'a', VALUE := 1), STRUCT(KEY := 'a', VALUE := 2)], 'a') -> ARRAY[1, 2]
    """
    values = lambda_([ITEM], part(name(ITEM), "VALUE"))
    return let([entries, key], lambda every, k: call("transform", _having(every, k), values))


def _having(entries: Tree, key: Tree) -> Tree:
    return call("filter", entries, lambda_([ITEM], op(exp.NullSafeEQ, part(name(ITEM), "KEY"), key)))


@scalar("(bytes BYTES, encoding STRING) -> STRING")
def convert_from(data: Tree, encoding: Tree) -> Checked:
    """Decode bytes to a string; `utf8` is the only encoding, and invalid bytes are an error.

    Example: CONVERT_FROM(TO_BYTES('6769c3a1', 'hex'), 'utf8') -> 'giá'
    """
    known = is_in(call("lower", encoding), *_UTF8)
    return Checked(
        # Bytes that are no UTF-8 must not get into a string, even where the call fails: Python could not read it.
        call("try_validate_utf8", cast(data, "STRING")),
        call("coalesce", any_of(not_(call("is_valid_utf8", data)), not_(known)), exp.false()),
    )
