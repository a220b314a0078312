"""Writes and reads dates and times in fixed-width patterns for a whole column, digit by digit.

What a layout is, and which values it takes, is in `kestrel_sql.java.time.fixed_width`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

_DAY_MS = 86_400_000
_FIRST, _LAST = -719_162, 2_932_896
"""The days of the years 1 and 9999."""
_DATES = frozenset(("yyyy", "MM", "dd"))
_TIMES: Mapping[str, int] = {"HH": 3_600_000, "mm": 60_000, "ss": 1_000, "SSS": 1}
_MOST: Mapping[str, int] = {"HH": 24, "mm": 60, "ss": 60, "SSS": 1000}

Part = str | bytes
"""A unit of a pattern, such as `yyyy`, or the text between two units as bytes."""


def written(parts: Sequence[Part], millis: Numbers, missing: npt.NDArray[np.bool_] | None) -> pa.Array | None:
    """Write instants (ms since 1970-01-01, UTC); None if one is outside of the years 1 to 9999."""
    values = millis.astype(np.int64)
    days = values // _DAY_MS
    if len(days) and (days.min() < _FIRST or days.max() > _LAST):
        return None
    of_day = values - days * _DAY_MS
    units: dict[str, Numbers] = {}
    if not _DATES.isdisjoint(parts):
        dates, places = np.unique(days, return_inverse=True)
        months = dates.astype("M8[D]").astype("M8[M]")
        months_since = months.astype(np.int64)
        units["yyyy"] = (months_since // 12 + 1970)[places]
        units["MM"] = (months_since % 12 + 1)[places]
        units["dd"] = (dates - months.astype("M8[D]").astype(np.int64) + 1)[places]
    for unit, size in _TIMES.items():
        units[unit] = of_day // size % _MOST[unit]
    width = sum(map(len, parts))
    text = np.empty((len(values), width), np.uint8)
    at = 0
    for part in parts:
        if isinstance(part, bytes):
            text[:, at : at + len(part)] = np.frombuffer(part, np.uint8)
        else:
            rest = units[part]
            for place in range(at + len(part) - 1, at - 1, -1):
                rest, digit = np.divmod(rest, 10)
                text[:, place] = digit + 48
        at += len(part)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * width
    valid = None if missing is None else pa.array(~missing).buffers()[1]
    return pa.Array.from_buffers(pa.string(), len(values), [valid, pa.py_buffer(offsets), pa.py_buffer(text)])


def read(parts: Sequence[Part], array: pa.Array) -> Numbers | None:
    """Read texts without NULL as ms since 1970-01-01, UTC; None if one is no text of the pattern."""
    width = sum(map(len, parts))
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    if array.null_count or data is None or not (np.diff(bounds) == width).all():
        return None
    text = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]].reshape(-1, width)
    units: dict[str, Numbers] = {}
    at = 0
    for part in parts:
        own = text[:, at : at + len(part)]
        if isinstance(part, bytes):
            if not (own == np.frombuffer(part, np.uint8)).all():
                return None
        else:
            digits = own - np.uint8(48)
            if digits.max(initial=0) > 9:
                return None
            units[part] = digits @ (10 ** np.arange(len(part) - 1, -1, -1))
        at += len(part)
    if any(units[unit].max(initial=0) >= _MOST[unit] for unit in units if unit in _MOST):
        return None
    of_day = sum((units[unit] * size for unit, size in _TIMES.items() if unit in units), np.zeros(len(array), np.int64))
    days = _days_of(units["yyyy"], units["MM"], units["dd"]) if "yyyy" in units else np.zeros(len(array), np.int64)
    return None if days is None else days * _DAY_MS + of_day


def _days_of(year: Numbers, month: Numbers, day: Numbers) -> Numbers | None:
    """The days since 1970-01-01; None if one of them does not exist."""
    if len(year) and (min(year.min(), month.min(), day.min()) < 1 or month.max() > 12):
        return None
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    first = months.astype("M8[D]").astype(np.int64)
    length = (months + 1).astype("M8[D]").astype(np.int64) - first
    return None if (day > length).any() else first + day - 1
