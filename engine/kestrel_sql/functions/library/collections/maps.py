"""Functions of maps; arrays made from maps are in the order of a Java HashMap."""

from __future__ import annotations

from typing import Any

from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.functions.values.equality import hash_map, sort_key

Items = list[Any] | None
Entries = dict[Any, Any] | None


@scalar("(keys ARRAY<STRING>, values ARRAY<T>) -> MAP<STRING, T>", nulls=Nulls.BODY)
def as_map(keys: Items, values: Items) -> Entries:
    """Build a map from an array of keys and an array of values.

    A missing value becomes NULL, and the last of equal keys wins.

    Example: AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2]) -> MAP('a' := 1, 'b' := 2)
    """
    if keys is None or values is None:
        return None
    return hash_map({key: values[i] if i < len(values) else None for i, key in enumerate(keys)})


@scalar("(map1 MAP<STRING, T>, map2 MAP<STRING, T>) -> MAP<STRING, T>", nulls=Nulls.BODY, display_name="map_union")
def map_union(first: Entries, second: Entries) -> Entries:
    """Merge two maps; values of the second map win, and a NULL map counts as empty.

    Example: MAP_UNION(MAP('a' := 1, 'b' := 2), MAP('b' := 3)) -> MAP('a' := 1, 'b' := 3)
    """
    if first is None and second is None:
        return None
    one, other = first or {}, second or {}
    # Java makes room for the entries that it puts first as if they were a third more, and one.
    return hash_map({**one, **other}, capacity=len(one or other) * 4 // 3 + 1)


@scalar("(input MAP<STRING, T>) -> ARRAY<STRING>", nulls=Nulls.BODY, display_name="map_keys")
def map_keys(mapping: Entries) -> Items:
    """Return the keys of a map, in the order of a Java HashMap.

    Example: MAP_KEYS(MAP('b' := 2, 'a' := 1)) -> ARRAY['a', 'b']
    """
    return None if mapping is None else list(mapping)


@scalar("(input MAP<STRING, T>) -> ARRAY<T>", nulls=Nulls.BODY, display_name="map_values")
def map_values(mapping: Entries) -> Items:
    """Return the values of a map, in the order of `MAP_KEYS`.

    Example: MAP_VALUES(MAP('b' := 2, 'a' := 1)) -> ARRAY[1, 2]
    """
    return None if mapping is None else list(mapping.values())


@scalar(
    "(map MAP<STRING, INT>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V INT>>",
    "(map MAP<STRING, BIGINT>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V BIGINT>>",
    "(map MAP<STRING, DOUBLE>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V DOUBLE>>",
    "(map MAP<STRING, BOOLEAN>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V BOOLEAN>>",
    "(map MAP<STRING, STRING>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V STRING>>",
    nulls=Nulls.BODY,
)
def entries(mapping: Entries, ordered: bool) -> Items:
    """Return the entries of a map as structs of K and V, sorted by key or in the order of a Java HashMap.

    Example: ENTRIES(MAP('b' := 2, 'a' := 1), TRUE) -> ARRAY[STRUCT(K := 'a', V := 1), STRUCT(K := 'b', V := 2)]
    """
    if mapping is None:
        return None
    listed = sorted(mapping.items(), key=lambda entry: sort_key(entry[0])) if ordered else mapping.items()
    return [{"K": key, "V": value} for key, value in listed]
