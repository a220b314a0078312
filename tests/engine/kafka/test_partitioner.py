from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kestrel_sql.kafka.sink.partitioner import bare_keys, murmur2_all, partitions_of
from kestrel_sql.topics.partitioner import murmur2, partition_of


def test_whole_columns_hash_as_single_keys_do() -> None:
    random_ = random.Random(1)
    keys = [random_.randbytes(random_.randrange(40)) for _ in range(2000)] + [b""]
    assert murmur2_all(pa.array(keys, pa.binary())).tolist() == [murmur2(key) for key in keys]


def test_a_slice_of_a_column_hashes_its_own_keys() -> None:
    keys = pa.array([b"a", None, b"bcd", b"efghi"], pa.binary())
    assert murmur2_all(keys[2:]).tolist() == [murmur2(b"bcd"), murmur2(b"efghi")]


def test_each_topic_has_its_own_number_of_partitions() -> None:
    topics, keys = pa.array(["a", "b", "missing"]), pa.array([b"key", b"key", b"key"], pa.binary())
    found = partitions_of(topics, keys, pa.array([0, 0, 0], pa.int64()), {"a": 3, "b": 8})
    assert found.to_pylist() == [partition_of(b"key", 3), partition_of(b"key", 8), None]


def test_records_without_a_key_take_turns() -> None:
    feeds = pa.array([0, 1, 2, 3], pa.int64())
    assert partitions_of(pa.array(["a"] * 4), pa.array([None] * 4, pa.binary()), feeds, {"a": 3}).to_pylist() == [
        0,
        1,
        2,
        0,
    ]


def test_log_entries_have_no_topic() -> None:
    assert partitions_of(
        pa.array([None], pa.string()), pa.array([None], pa.binary()), pa.array([0], pa.int64()), {"a": 3}
    ).to_pylist() == [None]


@pytest.mark.rules("O17.6")
def test_a_windowed_record_is_placed_by_its_key_without_the_window() -> None:
    topics = pa.array(["time", "session", "plain", "time", None])
    keys = pa.array([b"key" + b"\0" * 8, b"key" + b"\0" * 16, b"key" + b"\0" * 8, None, None], pa.binary())
    bare = bare_keys(topics, keys, {"time": 8, "session": 16, "plain": 0, "other": 8})
    assert bare.to_pylist() == [b"key", b"key", b"key" + b"\0" * 8, None, None]
    assert bare_keys(topics, keys, {}) is keys
