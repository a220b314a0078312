from __future__ import annotations

import pytest

from kestrel_sql.java.hash_order import java_hash_order, java_string_hash


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("Hello", 69609650),
        ("AaAa", 2031744),
        ("BBBB", 2031744),
        ("polygenelubricants", 0x80000000),
        ("😀", 1772899),
    ],
)
def test_hash_of_a_string(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


@pytest.mark.rules("U4.2")
@pytest.mark.parametrize(
    ("keys", "capacity", "order"),
    [
        ([], 16, []),
        (["b", "a"], 16, ["a", "b"]),
        (["q", "a"], 16, ["q", "a"]),
        (["a", "q"], 16, ["a", "q"]),
        (["q", "a"], 32, ["a", "q"]),
        (["p", "o", "a"], 16, ["p", "a", "o"]),
        (["o", "p"], 1, ["p", "o"]),
        (["a", None], 16, [None, "a"]),
        (["a", "b", "a"], 16, ["a", "b"]),
        ([17, 2, -1, 1 << 32, 1], 16, [-1, 17, 1 << 32, 1, 2]),
        ([True, False], 16, [False, True]),
    ],
)
def test_order_of_keys(keys: list[str | int | None], capacity: int, order: list[str | int | None]) -> None:
    assert java_hash_order(keys, capacity) == order


def test_the_table_grows_when_three_quarters_full() -> None:
    keys = [chr(c) for c in range(ord("a"), ord("a") + 12)]
    assert java_hash_order(["q", *keys[:11]])[0] == "q"
    assert java_hash_order(["q", *keys])[0] == "a"


def test_a_mapping_is_ordered_by_its_keys() -> None:
    assert java_hash_order({"b": 1, "a": 2}) == ["a", "b"]
