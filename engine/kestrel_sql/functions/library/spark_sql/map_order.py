"""Orders map entries as ksqlDB sees them, in Spark expressions (rules U4).

`kestrel_sql.java.hash_order` does the same in Python. The hash table has the size of `new HashMap(size)`, which JSON
and the constructor MAP create; in ksqlDB, a map from elsewhere may have another size.
"""

from __future__ import annotations

from sqlglot import exp

from kestrel_sql.functions.library.spark_sql.arrays import AT, ITEM, STATE, lambda_, name, part
from kestrel_sql.functions.library.spark_sql.expressions import Tree, call, cast, if_, number, op, text
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, DATE, INTEGER, STRING, SqlType

_LAST_UNIT = 0xFFFF


def java_entries(map_: Tree, key: SqlType | None) -> Tree:
    """Return the entries of a map as structs of `key` and `value`, in the order of a Java HashMap.

    Entries keep their order if Spark cannot compute the hash of the key type. Evaluates `map_` three times.
    """
    entries = call("map_entries", map_)
    if key not in (STRING, INTEGER, DATE, BIGINT, BOOLEAN):
        return entries
    hashes = call("transform", call("map_keys", map_), lambda_([ITEM], _hash(name(ITEM), key)))
    spread = call("named_struct", text("b"), _bucket(name(ITEM), call("array_size", entries)), text("i"), name(AT))
    order = call("array_sort", call("transform", hashes, lambda_([ITEM, AT], spread)))
    return call("transform", order, lambda_([ITEM], call("get", entries, part(name(ITEM), "i"))))


def _bucket(hashed: Tree, size: Tree) -> Tree:
    """Return the bucket of a hash in a table of a power of two buckets that is at most three quarters full."""
    least = op(exp.IntDiv, op(exp.Add, op(exp.Mul, size, number(4)), number(2)), number(3))
    table = call("shiftleft", number(1), call("length", call("bin", op(exp.Sub, least, number(1)))))
    mixed = op(exp.BitwiseXor, hashed, call("shiftrightunsigned", hashed, number(16)))
    return op(exp.BitwiseAnd, mixed, op(exp.Sub, table, number(1)))


def _hash(value: Tree, key: SqlType | None) -> Tree:
    """Return Java's `hashCode` of a key."""
    if key == STRING:
        units = call("transform", call("split", value, text("")), lambda_([ITEM], call("ascii", name(ITEM))))
        return call("aggregate", units, number(0), lambda_([STATE, ITEM], _add_character(name(STATE), name(ITEM))))
    if key == BIGINT:
        return cast(op(exp.BitwiseXor, value, call("shiftrightunsigned", value, number(32))), "INT")
    return if_(value, number(1231), number(1237)) if key == BOOLEAN else value


def _add_character(state: Tree, code: Tree) -> Tree:
    high = op(exp.Add, number(0xD7C0), call("shiftright", code, number(10)))
    low = op(exp.Add, number(0xDC00), op(exp.BitwiseAnd, code, number(0x3FF)))
    return if_(op(exp.GT, code, number(_LAST_UNIT)), _add_unit(_add_unit(state, high), low), _add_unit(state, code))


def _add_unit(state: Tree, unit: Tree) -> Tree:
    return op(exp.Add, op(exp.Mul, state, number(31)), unit)
