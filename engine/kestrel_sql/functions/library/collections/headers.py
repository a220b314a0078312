"""Functions of lists of headers, or of any KEY and VALUE entries (rules K1.6)."""

from __future__ import annotations

from typing import Any

from kestrel_sql.functions.declaration import scalar
from kestrel_sql.functions.values.equality import hash_map
from kestrel_sql.java.letters import lower

Entries = list[dict[str, Any] | None]

_ENTRIES = "ARRAY<STRUCT<KEY STRING, VALUE T>>"
_UTF8 = ("utf8", "utf-8")


def _having(entries: Entries, key: str) -> list[object]:
    return [entry["VALUE"] for entry in entries if entry is not None and entry["KEY"] == key]


@scalar(f"(entries {_ENTRIES}) -> MAP<STRING, T>")
def map_build(entries: Entries) -> dict[str, object]:
    """Build a map from a list of entries; the last of equal keys wins, and NULL entries and keys are skipped.

    Example: MAP_BUILD(ARRAY[STRUCT(KEY := 'a', VALUE := 1), STRUCT(KEY := 'a', VALUE := 2)]) -> MAP('a' := 2)
    """
    found = (entry for entry in entries if entry is not None and entry["KEY"] is not None)
    return hash_map({entry["KEY"]: entry["VALUE"] for entry in found})


@scalar(f"(entries {_ENTRIES}, key STRING) -> T")
def header_value(entries: Entries, key: str) -> object:
    """Return the value of the last entry with the key, or NULL if there is none; keys are case-sensitive.

    Example: HEADER_VALUE(ARRAY[STRUCT(KEY := 'a', VALUE := 1), STRUCT(KEY := 'a', VALUE := 2)], 'a') -> 2
    """
    return next(reversed(_having(entries, key)), None)


@scalar(f"(entries {_ENTRIES}, key STRING) -> ARRAY<T>")
def header_values(entries: Entries, key: str) -> list[object]:
    """Return the values of all entries with the key, in their order; an empty array if there are none.

    Example: HEADER_VALUES(ARRAY[STRUCT(KEY := 'a', VALUE := 1), STRUCT(KEY := 'a', VALUE := 2)], 'a') -> ARRAY[1, 2]
    """
    return _having(entries, key)


@scalar("(bytes BYTES, encoding STRING) -> STRING")
def convert_from(data: bytes, encoding: str) -> str:
    """Decode bytes to a string; `utf8` is the only encoding, and invalid bytes are an error.

    Example: CONVERT_FROM(TO_BYTES('6769c3a1', 'hex'), 'utf8') -> 'giá'
    """
    if lower(encoding) not in _UTF8:
        raise ValueError(f"unknown encoding {encoding}")
    return data.decode("utf-8")
