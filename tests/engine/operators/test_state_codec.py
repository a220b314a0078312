from __future__ import annotations

from decimal import Decimal
from math import isnan

import pytest

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.state_codec import dump_state, load_state, pack_state


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
