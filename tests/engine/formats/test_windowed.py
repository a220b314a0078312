from __future__ import annotations

import pyarrow as pa
import pytest

from kestrel_sql.errors import SerdeError
from kestrel_sql.formats import windowed_key as windowed
from kestrel_sql.formats.bulk.codec import NotPlainError
from kestrel_sql.formats.windowed_columns import join_all
from kestrel_sql.plan.step import WindowInfo, WindowType

TIME = WindowInfo(WindowType.TUMBLING, size_ms=10)
SESSION = WindowInfo(WindowType.SESSION)


@pytest.mark.rules("F5.1")
def test_time_keys_carry_their_start() -> None:
    data = windowed.join(b"a", (1000, 1010), TIME)
    assert data == b"a" + (1000).to_bytes(8, "big")
    assert windowed.split(data, TIME) == (b"a", (1000, 1010))


@pytest.mark.rules("F5.2")
def test_session_keys_carry_end_then_start() -> None:
    data = windowed.join(b"a", (1, 2), SESSION)
    assert data == b"a" + (2).to_bytes(8, "big") + (1).to_bytes(8, "big")
    assert windowed.split(data, SESSION) == (b"a", (1, 2))


@pytest.mark.parametrize("window", [TIME, SESSION])
def test_joining_a_column_of_keys_equals_joining_each_key(window: WindowInfo) -> None:
    keys = [b"", b"a", None, b"longer", b"\xff"]
    starts, ends = [0, -5, 3, 2**62, 7], [1, 0, 4, 2**63 - 1, 8]
    arrays = pa.array([b"before", *keys], pa.binary())[1:], pa.array(starts, pa.int64()), pa.array(ends, pa.int64())
    joined = join_all(*arrays, window).to_pylist()
    assert joined == [
        None if key is None else windowed.join(key, bounds, window)
        for key, *bounds in zip(keys, starts, ends, strict=True)
    ]


def test_a_column_of_keys_without_a_bound_is_not_plain() -> None:
    with pytest.raises(NotPlainError):
        join_all(pa.array([b"a"]), pa.array([None], pa.int64()), pa.array([1], pa.int64()), TIME)


def test_a_key_that_cannot_hold_a_window_is_an_error() -> None:
    with pytest.raises(SerdeError):
        windowed.split(b"short", SESSION)
