from __future__ import annotations

from decimal import Decimal
from math import isnan

import pytest

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.state_codec import (
    BUCKETED_FROM,
    BucketedRows,
    bucket_rows,
    dump_state,
    load_state,
    pack_state,
    packed_length,
)

STORED_BUCKETS = (
    "0381a4726f7773c72c039309c41184c4010404c4010505c4010606c4010707c41585c4010000c4010101c4010202c4010303c4010808"
)
"""Nine rows in two buckets."""


def test_plain_values_survive() -> None:
    state = {
        "none": None,
        "numbers": [True, 1, -(2**63), 2**64 - 1, 2**90, -(2**70), 1.5, Decimal("-1.230"), Decimal("1E+40")],
        "texts": ["é", "\ud800", b"\x00\xff"],
        "maps": {1: "a", b"k": [], "s": {None: 2, Decimal("1.5"): 3}},
    }
    loaded = load_state(dump_state(state))
    assert loaded == state
    assert str(loaded["numbers"][7]) == "-1.230"
    assert type(loaded["numbers"][0]) is bool


def test_tuples_come_back_as_lists() -> None:
    assert load_state(dump_state({"row": (1, (2,))})) == {"row": [1, [2]]}


def test_not_a_number_survives() -> None:
    assert isnan(load_state(dump_state({"x": float("nan")}))["x"])


def test_a_value_that_is_not_plain_is_refused() -> None:
    with pytest.raises(QueryError, match="set"):
        dump_state({"x": {1, 2}})


def test_a_packed_state_is_smaller_and_decodes_to_the_same() -> None:
    large, small = {f"key {n}".encode(): [n, [f"key {n}"]] for n in range(1000)}, {b"key": [1]}
    assert load_state(pack_state(large)) == load_state(dump_state(large))
    assert len(pack_state(large)) < len(dump_state(large)) / 2
    assert pack_state(small) == dump_state(small)
    assert [packed_length(found) for found in (pack_state(large), pack_state(small), small)] == [
        len(large),
        *[len(small)] * 2,
    ]


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"", "it is empty"),
        (b"\x63\x80", "version 99"),
        (dump_state({"x": [1, 2]})[:-1], "damaged"),
        (dump_state({"x": 1}) + b"\x00", "damaged"),
        (b"\x01\x90", "damaged: expected a dict, got list"),
        (b"\x01\x81\xa1x\xd4\x07\x00", "damaged"),
        (b"\x01\x81\xa1x\xd4\x01z", "damaged"),
        (b"\x02", "damaged"),
        (b"\x02\x81\xa1x\x01", "damaged"),
        (pack_state({"x": list(range(1000))})[:-1], "damaged"),
    ],
)
def test_bytes_that_do_not_decode_raise_an_error_that_says_why(stored: bytes, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        load_state(stored)


def rows_of(count: int) -> dict[bytes, list[int]]:
    return {f"key {n}".encode(): [n, 2**70] for n in range(count)}


def test_many_rows_come_back_from_their_buckets() -> None:
    state = {"groups": rows_of(BUCKETED_FROM), "few": rows_of(BUCKETED_FROM - 1), "number": 7}
    bucket_rows(state)
    assert isinstance(state["groups"], BucketedRows)
    assert isinstance(state["few"], dict)
    loaded = load_state(dump_state(state))
    assert len(loaded["groups"]) == BUCKETED_FROM
    assert loaded == {"groups": rows_of(BUCKETED_FROM), "few": rows_of(BUCKETED_FROM - 1), "number": 7}


def test_rows_in_buckets_are_read_replaced_added_and_removed() -> None:
    rows = load_state(dump_state({"rows": BucketedRows.of(rows_of(100))}))["rows"]
    rows[b"key 5"] = "five"
    rows[b"new"] = "new"
    assert rows.pop(b"key 6") == [6, 2**70]
    assert rows.pop(b"key 6", None) is None
    assert (rows.get(b"absent"), rows.get(None), b"key 7" in rows, b"absent" in rows) == (None, None, True, False)
    again = load_state(dump_state({"rows": rows}))["rows"]
    expected = {key: row for key, row in rows_of(100).items() if key != b"key 6"}
    assert dict(again) == {**expected, b"key 5": "five", b"new": "new"}
    assert len(again) == 100


def test_a_bucket_that_nobody_asks_for_is_copied_as_bytes() -> None:
    stored = dump_state({"rows": BucketedRows.of(rows_of(1000))})
    rows = load_state(stored)["rows"]
    assert rows[b"key 1"] == [1, 2**70]
    assert sum(isinstance(bucket, dict) for bucket in rows._buckets) == 1
    assert dump_state({"rows": rows}) == stored


def test_rows_that_have_grown_get_more_buckets() -> None:
    state = {"rows": BucketedRows.of(rows_of(100))}
    before = len(state["rows"]._buckets)
    state["rows"].update(rows_of(150))
    bucket_rows(state)
    assert len(state["rows"]._buckets) == before
    state["rows"].update(rows_of(400))
    bucket_rows(state)
    assert len(state["rows"]._buckets) > before
    assert dict(state["rows"]) == rows_of(400)


def test_buckets_that_a_release_wrote_are_found_for_ever() -> None:
    stored = bytes.fromhex(STORED_BUCKETS)
    assert load_state(stored) == {"rows": {bytes([n]): n for n in range(9)}}
    assert dump_state({"rows": BucketedRows.of({bytes([n]): n for n in range(9)})}) == stored


def test_a_damaged_bucket_raises_an_error_that_says_so() -> None:
    rows = load_state(bytes.fromhex(STORED_BUCKETS).replace(b"\xc4\x01\x03", b"\xc4\xff\x03"))["rows"]
    with pytest.raises(QueryError, match="the stored state of an operator is damaged"):
        dict(rows)
