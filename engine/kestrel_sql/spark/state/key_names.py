"""The names of groups in a state: their keys, serialised for a whole column at once where there are many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kestrel_sql.arrow.columns import to_list, to_rows
from kestrel_sql.dataflow.keys import EncodedKey
from kestrel_sql.spark.io.serdes import SerdeWriter

_MANY = 512
"""From this many keys on, a column is cheaper than to look up each."""


class KeyNames:
    """Serialises keys as an operator does."""

    def __init__(self, key_bytes: EncodedKey) -> None:
        self._key_bytes = key_bytes
        self._writer = SerdeWriter(key_bytes.spec)

    def of(self, keys: pa.StructArray) -> list[bytes]:
        """Return the bytes of each key of a column."""
        if len(keys) < _MANY:
            return [self._key_bytes(key or ()) for key in to_rows(keys)]
        written, errors = self._writer.write(keys.flatten(), np.ones(len(keys), dtype=bool))
        names = [name or b"" for name in to_list(written)]
        for at in errors:
            names[at] = self._key_bytes(to_rows(keys.slice(at, 1))[0] or ())
        return names
