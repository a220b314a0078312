"""Changes of a table on their way to another partition: a new row, an old one, or both in one record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kestrel_sql.dataflow.rows import Listed, Log, Part, Rows, Values
from kestrel_sql.topics.records import Record

_OLD, _NEW, _BOTH = 0, 1, 2
"""The last byte of a record; in front of both rows stands the length of the new one, a varint in zigzag."""

_OLD_ROW, _REPLACES = (("old", None),), (("replaces", None),)
"""Headers that tell an old row, and a new row that replaces the old one before it; such records have none."""


def split_changes(records: Iterable[Record]) -> Iterator[Record]:
    """Yield a record for each row of changes, an old row before the new one."""
    for record in records:
        data = record.value or b""
        kind, rows = data[-1:], data[:-1]
        if kind == bytes([_NEW]):
            yield replace(record, value=rows)
        elif kind == bytes([_OLD]):
            yield replace(record, value=rows, headers=_OLD_ROW)
        else:
            length, at = _varint(rows)
            yield replace(record, value=rows[at + length :], headers=_OLD_ROW)
            yield replace(record, value=rows[at : at + length], headers=_REPLACES)


def _varint(data: bytes) -> tuple[int, int]:
    """A number, and where it ends."""
    number = at = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << (7 * at)
        at += 1
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at


def joined_changes(log: Log, rows: Rows) -> Rows:
    """Make changes of a grouped table of rows that `split_changes` gave."""
    keys, values, kinds = rows.key.rows(), rows.value.rows(), rows.headers.values()
    new: list[Values | None] = []
    old: list[Values | None] = []
    kept = []
    for at, kind in enumerate(kinds):
        if kind == _OLD_ROW and at + 1 < len(kinds) and kinds[at + 1] == _REPLACES:
            continue
        kept.append(at)
        new.append(None if kind == _OLD_ROW else values[at])
        old.append(values[at] if kind == _OLD_ROW else values[at - 1] if kind == _REPLACES else None)
    own = [keys[at] for at in kept]
    of_key, of_value = len(rows.key.cells), len(rows.value.cells)
    return replace(
        rows.take(kept),
        key=Part.of([key if row is not None else None for key, row in zip(own, new, strict=True)], of_key),
        value=Part.of(new, of_value),
        old=Part.of(old, of_value),
        old_key=Part.of([key if row is not None else None for key, row in zip(own, old, strict=True)], of_key),
        headers=Listed([()] * len(kept)),
    )
