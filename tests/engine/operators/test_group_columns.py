from __future__ import annotations

import base64
import zlib
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.group_columns import GroupColumns
from kestrel_sql.operators.group_state import Group
from kestrel_sql.operators.state_codec import COLUMNS, dump_state, load_state

FRESH: Group = [None, [None], [0, None, [0.0, 0]]]
"""A group without rows: a copied text, a count, a greatest number and an average."""

STORED = (
    "eNqVUKtOQ0EQPdO79/amWVHRkApEJbI8BJIEg+wHYAABgoRXSCDB9A+4oR8ABo3DNQia8AGVfAAOjYKzc3dhs7kVTDI7e+bMnN0ZM348PD+5"
    "PL14y6yZVDKTzW/aUIAunHVgUSBHyRtNDDGISp7GnyAPzOkT+i59w+dH1GJTy2n1fE5lfM2T8hDH39S1eVPtOv2Y/H2kt5zUrOm/LL2t/3Jp"
    "F+dRTz/pWeVsJTMF7wO4mXvEBRWsonoHYpp6h4rNb24mL251R1J/35nFkl+eVUFkRmVGCNYhtrpIt9531Gtv4c8sFlvguj6Gvn5SF7Bfi44a"
    "2yDpX4nGhB81fm8r4XcSvYBNlMuTufAPLAv4wIX8/l4dvz6nZ9vT548ib+4Lelc+3kqmcfwqB3ft6uG6kh8G3DuC"
)
"""Three groups with a copied text and a count, one of them beside the columns; compressed."""


def group(number: int) -> Group:
    return [number, [f"é{number}"], [number * 2**40, None if number % 3 else number, [number / 4, number]]]


def groups(count: int) -> dict[bytes, Group]:
    return {b"key %d" % number: group(number) for number in range(count)}


def stored(rows: Any) -> Any:
    """Rows after they were written and read."""
    return load_state(dump_state({"groups": rows}))["groups"]


def columns(rows: dict[bytes, Group]) -> GroupColumns:
    return GroupColumns.of(rows, FRESH, [pa.string()])


def test_groups_come_back_as_they_were() -> None:
    given = groups(300)
    found = stored(columns(given))
    assert isinstance(found, GroupColumns)
    assert found == given
    assert dump_state({"groups": columns(given)})[0] == COLUMNS
    assert (len(found), b"key 7" in found, b"absent" in found, found.get(b"absent")) == (300, True, False, None)


def test_numbers_of_all_sizes_come_back() -> None:
    for number in (0, -1, 127, -128, 128, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)):
        given = {b"a": [number, [None], [number, number, [float(number), number]]], b"b": group(1)}
        assert stored(columns(given)) == given


def test_a_group_that_was_asked_for_is_written_as_it_was_changed() -> None:
    found = stored(columns(groups(300)))
    found[b"key 5"][2][0] = 55
    found[b"new"] = group(1)
    assert len(found) == 301
    expected = {**groups(300), b"key 5": [5, ["é5"], [55, None, [1.25, 5]]], b"new": group(1)}
    assert dict(found) == expected
    again = stored(found)
    assert again == expected
    assert len(again) == 301


def test_few_changed_groups_stay_beside_the_columns_which_are_copied_as_bytes() -> None:
    found = stored(columns(groups(300)))
    found[b"key 5"][2][0] = 55
    again = stored(found)
    assert again._written == found._written
    assert again._opened == {b"key 5": found[b"key 5"]}
    many = stored(columns(groups(1000)))
    for number in range(600):
        many[b"key %d" % number][0] = -1
    again = stored(many)
    assert again._opened == {}
    assert again == {key: [-1 if each[0] < 600 else each[0], *each[1:]] for key, each in groups(1000).items()}


def closed(rows: GroupColumns, changed: dict[bytes, Group]) -> Any:
    """The rows once changed groups have become columns."""
    for key, each in changed.items():
        rows[key] = each
    rows.encoded(1)
    assert rows._opened == {}
    return stored(rows)


def test_groups_beside_the_columns_replace_those_in_them_and_add_to_them() -> None:
    kept = stored(columns(groups(300)))
    changed = {
        b"key 8": [10, ["x"], [1, None, [0.5, 1]]],
        b"new": [20, [None], [2, 7, [0.5, 2]]],
        b"key 9": [30, ["z"], [3, None, [0.5, 3]]],
    }
    assert closed(kept, changed) == {**groups(300), **changed}


def test_keys_of_one_hash_are_told_apart() -> None:
    one, other, third = b"plumless", b"buckeroo", b"third"
    assert crc32(one) == crc32(other)
    kept = stored(columns({**groups(50), one: group(1), third: group(3)}))
    assert other not in kept
    again = closed(kept, {other: [5, ["o"], [1, 1, [1.0, 1]]], one: [6, ["p"], [2, 2, [1.0, 1]]]})
    assert (again[other][1], again[one][1], again[third]) == (["o"], ["p"], group(3))


def test_a_column_that_held_only_null_takes_numbers_later() -> None:
    kept = stored(columns({b"a": [1, [None], [1, None, [0.0, 0]]]}))
    later = {b"b": [2, ["x"], [1, -0.5, [1.5, 1]]]}
    assert closed(kept, later) == {b"a": [1, [None], [1, None, [0.0, 0]]], **later}


def test_columns_that_a_release_wrote_are_read_for_ever() -> None:
    found = load_state(zlib.decompress(base64.b64decode(STORED)))
    assert found == {"groups": {b"a": [5, ["x"], [3]], b"b": [6, [None], [400]], b"c": [7, ["y"], [1]]}}


def test_special_doubles_keep_their_bits() -> None:
    given = [-0.0, float("nan"), float("inf"), 5e-324]
    kept = stored(columns({b"%d" % at: [0, [None], [0, None, [double, 0]]] for at, double in enumerate(given)}))
    found = [kept[b"%d" % at][2][2][0] for at in range(len(given))]
    assert np.array(found).tobytes() == np.array(given).tobytes()


def test_damaged_columns_raise_an_error_that_says_so() -> None:
    whole = dump_state({"groups": columns(groups(20))})
    assert len({*load_state(whole)["groups"]}) == 20
    told = 0
    for at in range(len(whole)):
        damaged = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
        try:
            # What does not raise was changed into another state, which only a checksum could tell.
            load_state(damaged)
        except QueryError:
            told += 1
    assert told > len(whole) / 3
    with pytest.raises(QueryError, match="damaged"):
        load_state(whole[:-1])
