"""Cut the input of queries into micro-batches. The results must not depend on the cut."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")

_CHANCE = 0.3
"""How likely it is that a random cut parts two neighbours."""


class Cut(msgspec.Struct, frozen=True):
    """All at once, or one record each, or at random positions; `restart` stops the queries in the middle."""

    each: bool = False
    seed: int | None = None
    restart: bool = False
    most: int = 15
    """About how many micro-batches a random cut makes of a long input: each costs as much as all records of a case."""

    @staticmethod
    def parse(text: str | None, restart: bool = False) -> Cut:
        """Parse `one`, `each` or `random:SEED`.

        None means one batch, or a random cut with `restart`, which needs a middle.

        Raises:
            ValueError: anything else.
        """
        if text is None:
            return Cut(seed=0 if restart else None, restart=restart)
        if text == "one":
            return Cut(restart=restart)
        if text == "each":
            return Cut(each=True, restart=restart)
        kind, _, seed = text.partition(":")
        if kind != "random" or not seed.removeprefix("-").isdecimal():
            raise ValueError(f"expected one, each or random:SEED, got {text!r}")
        return Cut(seed=int(seed), restart=restart)

    def batches(self, rows: Sequence[T], numbers: Sequence[int] | None = None) -> Iterator[Sequence[T]]:
        """Cut rows that are in feed order, never between two rows of the same feed number, if these are given."""
        if not self.each and self.seed is None:
            yield rows
            return
        random_ = random.Random(self.seed)
        numbers = range(len(rows)) if numbers is None else numbers
        chance = min(_CHANCE, self.most / len(set(numbers))) if rows else 0
        start = 0
        for at in range(1, len(rows) + 1):
            inside = at < len(rows) and numbers[at] == numbers[at - 1]
            if not inside and (at == len(rows) or self.each or random_.random() < chance):
                yield rows[start:at]
                start = at

    def restart_after(self, batches: int) -> int | None:
        """Return the number of the batch after which the queries restart; None if they do not."""
        return random.Random(self.seed or 0).randrange(batches) if self.restart and batches else None
