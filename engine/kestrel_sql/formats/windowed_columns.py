"""Keys of windowed topics, a column at a time (rules F5)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.formats.bulk.codec import binary_of, require
from kestrel_sql.formats.windowed_key import window_bytes
from kestrel_sql.plan.step import WindowInfo, WindowType


def join_all(keys: pa.BinaryArray, starts: pa.Int64Array, ends: pa.Int64Array, window: WindowInfo) -> pa.BinaryArray:
    """Append the windows to keys, as `join` does; a null key stays null.

    Raises:
        NotPlainError: a window lacks a bound.
    """
    require(not starts.null_count and not ends.null_count)
    bounds = [ends, starts] if window.type is WindowType.SESSION else [starts]
    tails = np.column_stack([bound.to_numpy() for bound in bounds]).astype(">i8").view(np.uint8)
    return pc.binary_join_element_wise(keys, binary_of(tails.ravel(), np.full(len(keys), window_bytes(window))), b"")
