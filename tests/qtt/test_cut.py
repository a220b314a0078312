from __future__ import annotations

import pytest

from kestrel_qtt.drivers.cut import Cut

ROWS = [{"feed": feed, "q": q} for feed in range(12) for q in range(2)]
FEEDS = [row["feed"] for row in ROWS]


@pytest.mark.parametrize("text", [None, "one", "each", "random:3", "random:-1"])
def test_a_cut_keeps_every_row_in_order(text: str | None) -> None:
    batches = list(Cut.parse(text).batches(ROWS, FEEDS))
    assert [row for batch in batches for row in batch] == ROWS


def test_each_feed_position_is_a_batch_of_its_own() -> None:
    assert [len(batch) for batch in Cut.parse("each").batches(ROWS, FEEDS)] == [2] * 12


def test_a_seed_cuts_the_same_way_twice() -> None:
    first, second = (list(Cut.parse("random:9").batches(ROWS, FEEDS)) for _ in range(2))
    assert first == second
    assert 1 < len(first) < 12


def test_a_random_cut_of_a_long_input_makes_few_batches() -> None:
    batches = list(Cut.parse("random:1").batches(range(1000)))
    assert 5 < len(batches) < 30


@pytest.mark.parametrize("text", ["two", "random", "random:x", "each:1"])
def test_other_cuts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="one, each or random:SEED"):
        Cut.parse(text)
