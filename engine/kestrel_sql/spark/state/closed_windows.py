"""The results of windows that close, over whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.operators.number_columns import Numbers


@dataclass(frozen=True, slots=True)
class ClosedWindows:
    """Results of windows that rows close, a column each.

    Attributes:
        causes: the index of the row that closes the window.
        structs: the struct column of the results.
        times: their timestamps (ms).
        starts: the starts of the windows (ms).
        ends: their ends (ms).
    """

    causes: Numbers
    structs: pa.StructArray
    times: Numbers
    starts: Numbers
    ends: Numbers


def merged(parts: Sequence[ClosedWindows]) -> ClosedWindows:
    """All results in the order of the windows: a later one is not closed before an earlier one."""
    order = np.argsort(np.concatenate([part.starts for part in parts]), kind="stable")
    structs = pa.concat_arrays([part.structs for part in parts]).take(pa.array(order))
    causes, times, starts, ends = (
        np.concatenate([getattr(part, name) for part in parts])[order] for name in ("causes", "times", "starts", "ends")
    )
    return ClosedWindows(causes, structs, times, starts, ends)


def ranks_of(names: Sequence[bytes]) -> Numbers:
    """The place of each name in the order of their bytes."""
    coded = pa.array(names, pa.binary()).dictionary_encode()
    ranks = np.empty(len(coded.dictionary), np.int64)
    ranks[pc.sort_indices(coded.dictionary).to_numpy()] = np.arange(len(ranks))
    found: Numbers = ranks[coded.indices.to_numpy()]
    return found
