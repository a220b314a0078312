"""Functions of maps; arrays made from maps are in the order of a Java HashMap."""

from __future__ import annotations

from sqlglot import exp

from kestrel_sql.functions.declaration import CallTypes, Nulls, scalar
from kestrel_sql.functions.library.spark_sql.arrays import AT, ENTRY, ITEM, lambda_, name, part, typed_like
from kestrel_sql.functions.library.spark_sql.expressions import (
    Tree,
    any_of,
    call,
    if_,
    is_null,
    java_order,
    let,
    null,
    text,
)
from kestrel_sql.functions.library.spark_sql.map_order import java_entries
from kestrel_sql.types.sql_types import STRING, Map, SqlType


def key_type(sql_type: SqlType | None) -> SqlType | None:
    """Return the type of a map's keys; None if the type is not a map."""
    return sql_type.key if isinstance(sql_type, Map) else None


@scalar("(keys ARRAY<STRING>, values ARRAY<T>) -> MAP<STRING, T>", nulls=Nulls.BODY)
def as_map(keys: Tree, values: Tree) -> Tree:
    """Build a map from an array of keys and an array of values.

    A missing value becomes NULL, and the last of equal keys wins.

    Example: AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2]) -> MAP('a' := 1, 'b' := 2)
    """

    def build(keys: Tree, values: Tree) -> Tree:
        entry = call("struct", call("coalesce", name(ITEM), text("null")), call("get", values, name(AT)))
        entries = call("transform", keys, lambda_([ITEM, AT], entry))
        return if_(any_of(is_null(keys), is_null(values)), null(), call("map_from_entries", entries))

    return let([typed_like(keys, call("array", text(""))), values], build)


@scalar("(first MAP<STRING, T>, second MAP<STRING, T>) -> MAP<STRING, T>", nulls=Nulls.BODY, display_name="map_union")
def map_union(first: Tree, second: Tree) -> Tree:
    """Merge two maps; values of the second map win, and a NULL map counts as empty.

    Example: MAP_UNION(MAP('a' := 1, 'b' := 2), MAP('b' := 3)) -> MAP('a' := 1, 'b' := 3)
    """
    return let(
        [typed_like(first, second), typed_like(second, first)],
        lambda a, b: call("coalesce", call("map_concat", a, b), a, b),
    )


@scalar("(map MAP<STRING, T>) -> ARRAY<STRING>", nulls=Nulls.BODY, display_name="map_keys")
def map_keys(map_: Tree) -> Tree:
    """Return the keys of a map, in the order of a Java HashMap.

    Example: MAP_KEYS(MAP('b' := 2, 'a' := 1)) -> ARRAY['a', 'b']
    """
    return let([map_], lambda m: part(java_entries(m, STRING), "key"))


@scalar("(map MAP<STRING, T>) -> ARRAY<T>", nulls=Nulls.BODY, display_name="map_values")
def map_values(map_: Tree) -> Tree:
    """Return the values of a map, in the order of `MAP_KEYS`.

    Example: MAP_VALUES(MAP('b' := 2, 'a' := 1)) -> ARRAY[1, 2]
    """
    return let([map_], lambda m: part(java_entries(m, STRING), "value"))


@scalar(
    "(map MAP<STRING, INT>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V INT>>",
    "(map MAP<STRING, BIGINT>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V BIGINT>>",
    "(map MAP<STRING, DOUBLE>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V DOUBLE>>",
    "(map MAP<STRING, BOOLEAN>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V BOOLEAN>>",
    "(map MAP<STRING, STRING>, sorted BOOLEAN NOT NULL) -> ARRAY<STRUCT<K STRING, V STRING>>",
    nulls=Nulls.BODY,
    with_types=True,
)
def entries(types: CallTypes, map_: Tree, ordered: Tree) -> Tree:
    """Return the entries of a map as structs of K and V, sorted by key or in the order of a Java HashMap.

    Example: ENTRIES(MAP('b' := 2, 'a' := 1), TRUE) -> ARRAY[STRUCT(K := 'a', V := 1), STRUCT(K := 'b', V := 2)]
    """
    pair = call("named_struct", text("K"), part(name(ENTRY), "key"), text("V"), part(name(ENTRY), "value"))

    def structs(m: Tree, sorted_: Tree) -> Tree:
        keyed = call("named_struct", text("k"), java_order(part(name(ENTRY), "key"), STRING), text("v"), name(ENTRY))
        by_key = part(call("array_sort", call("transform", call("map_entries", m), lambda_([ENTRY], keyed))), "v")
        chosen = (
            by_key if ordered == exp.true() else if_(sorted_, by_key, java_entries(m, key_type(types.arguments[0])))
        )
        return call("transform", chosen, lambda_([ENTRY], pair))

    return let([map_, ordered], structs)
