"""The serialised keys of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kestrel_sql.dataflow.query import Query
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.formats.table import decoder, encoder, format_of
from kestrel_sql.operators.operator import Key, KeyBytes
from kestrel_sql.operators.state_codec import dump_state, load_state
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, BYTES, DATE, INTEGER, STRING, TIME, TIMESTAMP

_REMEMBERED = 1 << 16

_EXACT = frozenset({BOOLEAN, INTEGER, BIGINT, STRING, BYTES, TIME, DATE, TIMESTAMP})
"""Types whose values are equal if and only if their bytes are.

DOUBLE is not one (0.0 and -0.0); lists cannot be dictionary keys.
"""


_UNWRITTEN = b"\xff" + dump_state({"key": []})[:6]
"""The first bytes of a serialised key that its format could not write."""


_EMPTY = b'""'
"""The key of DELIMITED whose only column is NULL, as records have it (rule F4.3.8).

What the format writes for it cannot be read, and an empty text, which is NULL when it is read, is written like this:
both are one key and have one partition.
"""


class EncodedKey:
    """Serialises keys in the key format of an operator, with a cache in each worker.

    A key that its format cannot write gets unique bytes that sort after those of all other keys.
    """

    __slots__ = ("_encode", "_exact", "_loses_empty", "_seen", "spec")

    def __init__(self, spec: SerdeSpec) -> None:
        self.spec = spec
        self._encode: Callable[[Any], bytes | None] | None = None
        self._exact = all(column.type in _EXACT for column in spec.columns)
        self._loses_empty = format_of(spec.format.format).loses_empty
        self._seen: dict[Any, bytes] = {}

    @property
    def exact(self) -> bool:
        """Whether two keys have the same bytes if and only if their values are equal."""
        return self._exact

    def __call__(self, key: tuple[object, ...]) -> bytes:
        """Serialise a key."""
        if not self._exact:
            return self._written(key)
        found = self._seen.get(key)
        if found is None:
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            found = self._seen[key] = self._written(key)
        return found

    def many(self, keys: Sequence[tuple[object, ...] | None]) -> list[bytes | None]:
        """Serialise many keys; None stays None."""
        if not self._exact:
            return [None if key is None else self._written(key) for key in keys]
        found: list[bytes | None] = [*map(self._seen.get, keys)]
        if None in found:
            found = [None if key is None else known or self(key) for key, known in zip(keys, found, strict=True)]
        return found

    def _written(self, key: tuple[object, ...]) -> bytes:
        if self._encode is None:
            self._encode = encoder(self.spec)
        try:
            data = self._encode(key)
            return data or (_EMPTY if self._loses_empty else b"")
        except SerdeError:
            return b"\xff" + dump_state({"key": list(key)})

    def __reduce__(self) -> tuple[object, ...]:
        return EncodedKey, (self.spec,)


def key_bytes(query: Query, relation: Relation) -> EncodedKey:
    """Return the function with which operators over a relation serialise its keys."""
    codec = relation.key_codec
    spec = SerdeSpec(codec.format, relation.schema.key, codec.features, Side.KEY, relation.topic)
    return EncodedKey(query.serde(spec))


def key_decoder(key_bytes: KeyBytes) -> Callable[[bytes], Key]:
    """Return the function that restores a key from the bytes that an operator made of it.

    It raises SerdeError for bytes that are not a key of the operator's format.
    """
    if not isinstance(key_bytes, EncodedKey):
        return _unwritten
    decode, absent = decoder(key_bytes.spec), (None,) * len(key_bytes.spec.columns)
    return lambda name: _unwritten(name) if name.startswith(_UNWRITTEN) else decode(name) or absent


def _unwritten(name: bytes) -> Key:
    return tuple(load_state(name[1:])["key"])
