"""Compare the processing log of a case with the entries that it expects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kestrel_qtt.cases.model import ExpectedLog, LogEntry
from kestrel_qtt.judge.align import align

_NOTED = 5


class LogDifference(msgspec.Struct, frozen=True):
    """How one entry of the log differs: `expected` is missing, `actual` is not expected, or some `fields` differ.

    `index` counts the expected entries, or the written ones where `expected` is None. `after` is the index of the
    expected entry whose written one comes before.
    """

    index: int
    expected: ExpectedLog | None
    actual: LogEntry | None
    fields: tuple[str, ...] = ()
    after: int | None = None

    @property
    def text(self) -> str:
        """Say what differs, one line for each field."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.expected is None:
            yield f"processing log, entry {self.index} as written is not expected: {_shown(self.actual)}"
        elif self.actual is None:
            yield f"processing log, entry {self.index} is missing: {_shown(self.expected)}"
        for name in self.fields:
            wanted, found = getattr(self.expected, name), getattr(self.actual, name)
            if name == "message":
                yield f"processing log, entry {self.index}: the message {found!r} does not contain {wanted!r}"
            else:
                yield f"processing log, entry {self.index}: {name} is {found}, expected {wanted}"


def log_differences(expected: Sequence[ExpectedLog], actual: Sequence[LogEntry]) -> list[LogDifference]:
    """Compare the entries in order; one that is missing or too many is one difference."""
    pairs = align(
        len(expected),
        len(actual),
        lambda one, other: not _differing(expected[one], actual[other]),
        lambda one, other: not {"topic", "offset"}.intersection(_differing(expected[one], actual[other])),
    )
    before = {pair.actual: pair.expected for pair in pairs if not (pair.expected is None or pair.moved)}
    found = []
    for pair in pairs:
        one, other = pair.expected, pair.actual
        if one is not None and other is not None and not pair.moved:
            if fields := _differing(expected[one], actual[other]):
                found.append(LogDifference(one, expected[one], actual[other], fields))
            continue
        # An entry at another position is missing at one and not expected at the other: the log is compared in order.
        if one is not None:
            found.append(LogDifference(one, expected[one], None))
        if other is not None:
            after = next((before[index] for index in reversed(range(other)) if index in before), None)
            found.append(LogDifference(other, None, actual[other], after=after))
    return found


def log_notes(entries: Sequence[LogEntry]) -> Iterator[str]:
    """Say which records could not be read, computed or written: the first ones, and how many more there are."""
    for entry in entries[:_NOTED]:
        at = "" if entry.topic is None else f"{entry.topic}, offset {entry.offset}: "
        yield f"processing log, {entry.type}: {at}{entry.message}"
    if len(entries) > _NOTED:
        yield f"the processing log has {len(entries) - _NOTED} more entries"


def _differing(expected: ExpectedLog, actual: LogEntry) -> tuple[str, ...]:
    names = tuple(
        name
        for name in ("type", "topic", "offset")
        if getattr(expected, name) is not None and getattr(expected, name) != getattr(actual, name)
    )
    has_message = expected.message is None or expected.message in actual.message
    return names if has_message else (*names, "message")


def _shown(entry: ExpectedLog | LogEntry | None) -> str:
    names = ("type", "message", "topic", "offset")
    return ", ".join(f"{name} {found}" for name in names if (found := getattr(entry, name, None)) is not None)
