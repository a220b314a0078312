"""Widens the stored rows of a table by the columns that ALTER … ADD COLUMN gave its source (rules L5.30)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.operator import State
from kestrel_sql.operators.tables.materialise import Materialise

_NAME = re.compile(r"^`((?:[^`]|``)*)`:")

_STORE = re.compile(rf"([0-9]+) {Materialise.__name__}\((.*)\)", re.DOTALL)


class Widening(msgspec.Struct, frozen=True):
    """The number of a relation, and for each column of its store the index in older rows; None for a new column."""

    relation: str
    positions: tuple[int | None, ...]

    def apply(self, state: State) -> None:
        """Give the stored rows the new columns, which are NULL.

        Raises:
            QueryError: the state is damaged.
        """
        try:
            rows = state.get(self.relation, {}).get("rows", {})
            for key, row in rows.items():
                rows[key] = [None if at is None else row[at] for at in self.positions]
        except (AttributeError, IndexError, TypeError) as error:
            raise QueryError(f"the stored state of an operator is damaged: {error}") from error


def widenings(written: Sequence[str], needed: Sequence[str]) -> tuple[Widening, ...] | None:
    """Compare two fingerprints of a level (`Level.fingerprint`).

    Returns:
        What brings a state of the fingerprint `written` to `needed`: nothing for equal ones. None if nothing does.
    """
    if len(written) != len(needed):
        return None
    changed = [_widening(before, after) for before, after in zip(written, needed, strict=True) if before != after]
    found = tuple(each for each in changed if each is not None)
    return found if len(found) == len(changed) else None


def _widening(written: str, needed: str) -> Widening | None:
    before, after = _STORE.fullmatch(written), _STORE.fullmatch(needed)
    if before is None or after is None or before[1] != after[1]:
        return None
    (old_key, stored), (new_key, wanted) = _columns(before[2]), _columns(after[2])
    if old_key != new_key or not stored.items() <= wanted.items():
        return None
    positions = {name: at for at, name in enumerate(stored)}
    return Widening(before[1], tuple(map(positions.get, wanted)))


def _columns(struct: str) -> tuple[str, Mapping[str, str]]:
    """The type of the key, and the types of the value columns by name, of a relation's struct."""
    parts = _fields(struct)
    return parts["k"], _fields(parts["v"])


def _fields(struct: str) -> Mapping[str, str]:
    """The types of the fields of a struct, as `kestrel_sql.spark.types` writes them, by name."""
    text, found, start, depth, quoted = struct.removeprefix("STRUCT<").removesuffix(">"), {}, 0, 0, False
    for at, letter in enumerate(f"{text},"):
        if letter == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == "," and depth == 0:
            _, name, kind = _NAME.split(text[start:at], maxsplit=1)
            found[name], start = kind, at + 1
    return found
