"""Rows of a state by key."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import homes_of

ValuesAt = Callable[[Sequence[int]], Sequence[list[Any]]]
"""Returns the values, or the keys, of rows of a batch."""


class KeyedRows:
    """Rows of a state by key, while an operator processes a batch.

    A row of the batch is stored as its index, and `settle` puts its values there: most are replaced before the batch is
    over, and values that nobody asks for stay in the form in which they came.

    Attributes:
        rows: the rows.
        homes: for each of the batch's keys the dictionary that has its row, or is to have it.
    """

    __slots__ = ("_keys", "homes", "rows")

    def __init__(self, state: State, name: str, keys: Sequence[bytes | None], *, made: bool = True) -> None:
        """Take a part of a state, which is `made` if it is not there and a row has a key, and the keys of the batch."""
        made = made and any(key is not None for key in keys)
        self.rows: MutableMapping[bytes, Any] = state.setdefault(name, {}) if made else state.get(name, {})
        self.homes, self._keys = homes_of(self.rows, keys), keys

    def settle(self, values: ValuesAt, place: int | None = None) -> None:
        """Replace the indices of rows of the batch by values; `place` is that of the index in a stored row."""
        homes = dict(zip(self._keys, self.homes, strict=True))
        if place is None:
            fresh = [(home, key) for key, home in homes.items() if isinstance(home.get(key), int)]
            for (home, key), row in zip(fresh, values([home[key] for home, key in fresh]), strict=True):
                home[key] = row
            return
        stored = [home.get(key) for key, home in homes.items()]
        stored = [row for row in stored if row is not None and isinstance(row[place], int)]
        for entry, row in zip(stored, values([entry[place] for entry in stored]), strict=True):
            entry[place] = row
