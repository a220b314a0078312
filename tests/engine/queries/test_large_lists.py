from __future__ import annotations

import random

import pytest

from kestrel_sql.queries import large_lists
from kestrel_sql.queries.large_lists import drained, ordered


def test_items_are_taken_out_in_their_order() -> None:
    items = [3, 1, 2]
    taken = drained(items)
    assert (next(taken), items) == (3, [2, 1])
    assert (list(taken), items) == ([1, 2], [])


@pytest.mark.parametrize("piece", [4, 16, 4_096])
@pytest.mark.parametrize("keys", [[], [1], [1] * 100, range(1_000), random.Random(3).choices(range(300), k=1_000)])
def test_pairs_are_sorted_in_pieces_as_at_once(keys: list[int], piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_lists, "_PIECE", piece)
    pairs = [((key, b""), at) for at, key in enumerate(keys)]
    assert list(ordered([*pairs])) == [at for _, at in sorted(pairs)]
