"""Say how the records of a topic differ.

What is missing, what nobody expects, what stands elsewhere, which columns differ.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kestrel_qtt.cases.counts import count_of
from kestrel_qtt.cases.model import Actual, ActualRecord, Case, Headers, InputRecord, Matching, OutputRecord, Window
from kestrel_qtt.judge.align import Pair, align
from kestrel_qtt.judge.compare import Difference, Rules, differences, is_same
from kestrel_qtt.judge.json_text import show, write_json

SHOWN_RECORDS = 5
_WIDTH = 60


class Comparison(msgspec.Struct, frozen=True):
    """How the records of a case are compared; `any_timestamp` says that expected timestamps of 0 mean nothing."""

    exact: bool = True
    any_timestamp: bool = False
    matching: Matching = msgspec.field(default_factory=Matching)

    @staticmethod
    def of(case: Case) -> Comparison:
        """How the outputs of a case are compared."""
        return Comparison(case.is_exact, not case.inputs, case.matching)

    def is_same(self, expected: OutputRecord, actual: ActualRecord) -> bool:
        """Say whether a record is the expected one."""
        parts = (("key", expected.key, actual.key), ("value", expected.value, actual.value))
        return not self._around(expected, actual) and all(is_same(*part[1:], part[0], self._rules) for part in parts)

    def differences(self, expected: OutputRecord, actual: ActualRecord) -> list[Difference]:
        """Compare one record: key, value, window, headers, and what else the expectation gives."""
        found = differences(expected.key, actual.key, "key", self._rules)
        return found + differences(expected.value, actual.value, "value", self._rules) + self._around(expected, actual)

    def _around(self, expected: OutputRecord, actual: ActualRecord) -> list[Difference]:
        """Compare what is beside key and value."""
        found: list[Difference] = []
        if expected.window != actual.window:
            found.append(Difference("window", _window(expected.window), _window(actual.window)))
        if expected.headers != actual.headers:
            found.append(Difference("headers", _headers(expected.headers), _headers(actual.headers)))
        places = [("partition", expected.partition, actual.partition), ("offset", expected.offset, actual.offset)]
        if not (self.any_timestamp and expected.timestamp == 0):
            places.insert(0, ("timestamp", expected.timestamp, actual.timestamp))
        found += [Difference(name, left, right) for name, left, right in places if left is not None and left != right]
        return [each for each in found if not self.matching.ignores(each.column)]

    def same_key(self, expected: OutputRecord, actual: ActualRecord) -> bool:
        """Say whether two records have the same key and window."""
        rules = Rules(self.exact)
        return expected.window == actual.window and is_same(expected.key, actual.key, "key", rules)

    @property
    def _rules(self) -> Rules:
        return Rules(self.exact, self.matching)


class RecordDifference(msgspec.Struct, frozen=True):
    """How one record of a topic differs.

    `index` counts the expected records of the topic, or the written ones where `expected` is None. `moved_to` is the
    place of the written record where only the order differs. `after` is the expected record whose written one comes
    before.
    """

    topic: str
    index: int
    expected: OutputRecord | None
    actual: ActualRecord | None
    columns: tuple[Difference, ...] = ()
    moved_to: int | None = None
    after: OutputRecord | None = None


def topic_differences(
    topic: str, expected: Sequence[OutputRecord], actual: Sequence[ActualRecord], comparison: Comparison
) -> list[RecordDifference]:
    """Compare the records of a topic in order, or only in the order of each key; an empty list says that they agree."""
    unordered = comparison.matching.unordered
    order = _by_key(expected, actual, comparison) if unordered else list(range(len(actual)))
    written = [actual[index] for index in order]
    if len(expected) == len(written) and all(map(comparison.is_same, expected, written)):
        return []
    pairs = align(
        len(expected),
        len(written),
        lambda one, other: comparison.is_same(expected[one], written[other]),
        lambda one, other: comparison.same_key(expected[one], written[other]),
    )
    return list(_differing(topic, expected, actual, [_at(pair, order) for pair in pairs], comparison))


def _at(pair: Pair, order: Sequence[int]) -> Pair:
    return Pair(pair.expected, None if pair.actual is None else order[pair.actual], pair.moved)


def _by_key(expected: Sequence[OutputRecord], actual: Sequence[ActualRecord], comparison: Comparison) -> list[int]:
    """The indices of the written records in the order in which the expected ones name their keys."""
    left = list(range(len(actual)))
    order = []
    for record in expected:
        found = next((index for index in left if comparison.same_key(record, actual[index])), None)
        if found is not None:
            left.remove(found)
            order.append(found)
    return order + left


def _differing(
    topic: str,
    expected: Sequence[OutputRecord],
    actual: Sequence[ActualRecord],
    pairs: Sequence[Pair],
    comparison: Comparison,
) -> Iterator[RecordDifference]:
    partners = {pair.actual: expected[pair.expected] for pair in pairs if pair.expected is not None}
    for pair in pairs:
        left = None if pair.expected is None else expected[pair.expected]
        right = None if pair.actual is None else actual[pair.actual]
        index = pair.actual if pair.expected is None else pair.expected
        columns = () if left is None or right is None else tuple(comparison.differences(left, right))
        before = range((pair.actual or 0) - 1, -1, -1)
        after = next((partners[at] for at in before if at in partners), None)
        if left is None or right is None or columns or pair.moved:
            yield RecordDifference(topic, index or 0, left, right, columns, pair.actual if pair.moved else None, after)


def topic_report(
    topic: str, expected: int, actual: int, found: Sequence[RecordDifference], file: Path, matching: Matching
) -> str:
    """Render what is wrong with `topic`; `expected` and `actual` are how many records the two sides have."""
    blocks: list[str] = []
    loosely = f" (compared {matching})" if str(matching) else ""
    if expected != actual:
        blocks.append(f"topic {topic}: {count_of(expected, 'record')} expected, {actual} written{loosely}")
    elif all(each.moved_to is not None for each in found):
        blocks.append(f"topic {topic}: the order differs{loosely}")
    elif loosely:
        blocks.append(f"topic {topic}: differs{loosely}")
    return "\n".join([*blocks, *difference_texts(topic, found, file)])


def difference_texts(topic: str, found: Sequence[RecordDifference], file: Path) -> list[str]:
    """Say of the first records of a topic how they differ, and how many more do."""
    texts = [difference_text(each, file) for each in found[:SHOWN_RECORDS]]
    more = len(found) - SHOWN_RECORDS
    return [*texts, f"… and {more} more records of topic {topic} differ"] if more > 0 else texts


def difference_text(each: RecordDifference, file: Path) -> str:
    """Say in a few lines how one record differs, where it is expected, and which input caused it."""
    line = None if each.expected is None else each.expected.line
    place = f" ({file}:{line})" if line else ""
    cause = "" if each.actual is None or each.actual.cause is None else f"\n  {cause_text(each.actual.cause, file)}"
    if each.moved_to is not None:
        return (
            f"topic {each.topic}, record {each.index}{place}: order differs, it was written as record"
            f" {each.moved_to}{cause}"
        )
    if each.actual is None and each.expected is not None:
        return f"topic {each.topic}, record {each.index}{place} is missing:\n{_contents(each.expected)}"
    if each.expected is None and each.actual is not None:
        return f"topic {each.topic}, record {each.index} as written is not expected:\n{_contents(each.actual)}{cause}"
    return f"topic {each.topic}, record {each.index}{place}:\n{table(each.columns)}{cause}"


def cause_text(cause: InputRecord, file: Path) -> str:
    """Name the input record that caused an output, by file and line."""
    where = cause.file or file
    line = f":{cause.line}" if cause.line else ""
    return f"caused by the input of topic {cause.topic} in {_short(where)}{line}"


def _short(path: Path) -> str:
    """The path as seen from the working directory, where it is below it."""
    here = os.path.relpath(path)
    return str(path) if here.startswith("..") else here


def table(rows: Sequence[Difference]) -> str:
    """Lay out differences in columns; long values take lines of their own."""
    cells = [(row.column, show(row.expected), show(row.actual)) for row in rows]
    if any(len(text) > _WIDTH for row in cells for text in row[1:]):
        return "\n".join(f"  {column}\n    expected  {left}\n    actual    {right}" for column, left, right in cells)
    cells = [("column", "expected", "actual"), *cells]
    widths = [max(len(row[i]) for row in cells) for i in range(2)]
    return "\n".join(f"  {column:<{widths[0]}}  {left:<{widths[1]}}  {right}" for column, left, right in cells)


def _contents(record: OutputRecord | ActualRecord) -> str:
    return "\n".join(f"  {name:<9}  {show(value)}" for name, value in contents(record))


def contents(record: OutputRecord | ActualRecord) -> list[tuple[str, Actual]]:
    """The parts of a record that only one side has, by name."""
    parts: list[tuple[str, Actual]] = [("key", record.key), ("value", record.value)]
    parts += [("timestamp", record.timestamp)] if record.timestamp is not None else []
    parts += [("window", _window(record.window))] if record.window is not None else []
    parts += [("partition", record.partition)] if record.partition else []
    parts += [("headers", _headers(record.headers))] if record.headers else []
    return parts


def _window(window: Window | None) -> Actual:
    return None if window is None else {"start": window.start, "end": window.end, "type": window.kind}


def _headers(headers: Headers) -> Actual:
    return [{"KEY": name, "VALUE": value} for name, value in headers]


def record_text(record: ActualRecord) -> str:
    """One line that says what a record holds."""
    return f"key {write_json(record.key)}, value {write_json(record.value)}, timestamp {record.timestamp}"
