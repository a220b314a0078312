"""Computes with Arrow arrays of numbers as Java does, where no value is wrapped, rounded or refused.

What cannot be decided for a whole column gives None.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.types.carried import MAX_PRECISION

Numbers = npt.NDArray[Any]

_DIGITS = 18
"""The most digits that 64 bits always hold."""


def values_of(given: Any) -> Any:
    """The values of integers or doubles, anything in place of NULL; the value of a scalar."""
    if isinstance(given, pa.Scalar):
        return given.as_py()
    kind = np.dtype(given.type.to_pandas_dtype())
    return np.frombuffer(given.buffers()[1], kind, len(given), given.offset * kind.itemsize)


def array_of(values: Numbers, *given: Any, kind: pa.DataType | None = None) -> pa.Array:
    """An array of values, NULL where one of the given arrays is."""
    missing = None
    for each in given:
        if isinstance(each, pa.Array) and each.null_count:
            own = each.is_null().to_numpy(zero_copy_only=False)
            missing = own if missing is None else missing | own
    return pa.array(values, kind, mask=missing)


def within(values: Numbers, least: int, most: int) -> bool:
    """Whether all values are in a range."""
    return bool(len(values) == 0 or (values.min() >= least and values.max() <= most))


def unscaled(given: Any) -> tuple[Any, int] | None:
    """The unscaled values of a DECIMAL or an integer, and their scale; None if 64 bits may not hold them."""
    kind = given.type
    if isinstance(given, pa.Scalar):
        if not pa.types.is_decimal(kind):
            return given.as_py(), 0
        value = int(given.as_py().scaleb(kind.scale))
        return (value, kind.scale) if abs(value) < 10**_DIGITS else None
    if not pa.types.is_decimal(kind):
        return values_of(given).astype(np.int64), 0
    words = np.frombuffer(given.buffers()[1], np.int64, 2 * len(given), given.offset * 16).reshape(-1, 2)
    low = words[:, 0]
    if kind.precision > _DIGITS and not (within(low, -(10**_DIGITS), 10**_DIGITS) and (words[:, 1] == low >> 63).all()):
        return None
    return low, kind.scale


def decimals(values: Numbers, precision: int, scale: int, *given: object) -> pa.Array | None:
    """DECIMALs of unscaled values, NULL where one of the given arrays is; None if one has too many digits."""
    if precision > MAX_PRECISION or scale < 0:
        return None
    if precision < _DIGITS and not within(values, -(10**precision) + 1, 10**precision - 1):
        return None
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    words[:, 1] = values >> 63
    nulls = [each for each in given if isinstance(each, pa.Array) and each.null_count]
    valid = None
    if nulls:
        missing = np.logical_or.reduce([each.is_null().to_numpy(zero_copy_only=False) for each in nulls])
        valid = pa.array(~missing).buffers()[1]
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(values), [valid, pa.py_buffer(words)])


def rescaled(values: Numbers, scale: int, wanted: int) -> Numbers | None:
    """Unscaled values at another scale, rounded half up; None if 64 bits may not hold them."""
    if wanted >= scale:
        factor = 10 ** (wanted - scale)
        limit = 10**_DIGITS // factor
        return values * factor if limit and within(values, -limit, limit) else None
    divisor = 10 ** (scale - wanted)
    magnitude = (np.abs(values) + divisor // 2) // divisor
    found: Numbers = np.where(values < 0, -magnitude, magnitude)
    return found


def largest(values: Numbers | int) -> int:
    """The largest magnitude of some values."""
    if isinstance(values, int):
        return abs(values)
    return max(abs(int(values.min(initial=0))), abs(int(values.max(initial=0))))


def equal(left: object, right: object) -> pa.Array:
    """Whether values are equal; false where one is NULL."""
    return pc.fill_null(pc.equal(left, right), False)
