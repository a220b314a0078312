"""Say how two sequences of records differ: a typed table of the differing columns of every record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from kestrel_qtt.cases.model import Actual, ActualRecord, Headers, OutputRecord, Window
from kestrel_qtt.judge.compare import ABSENT, Absent, Difference, differences
from kestrel_qtt.judge.json_text import show, write_json

SHOWN_RECORDS = 5
_WIDTH = 60


def record_differences(
    expected: OutputRecord, actual: ActualRecord, *, exact: bool, any_timestamp: bool
) -> list[Difference]:
    """Compare one record: key, value, window, headers, and what else the expectation gives."""
    found = differences(expected.key, actual.key, "key", exact=exact)
    found += differences(expected.value, actual.value, "value", exact=exact)
    if expected.window != actual.window:
        found.append(Difference("window", _window(expected.window), _window(actual.window)))
    if expected.headers != actual.headers:
        found.append(Difference("headers", _headers(expected.headers), _headers(actual.headers)))
    places = [("partition", expected.partition, actual.partition), ("offset", expected.offset, actual.offset)]
    if not any_timestamp:
        places.insert(0, ("timestamp", expected.timestamp, actual.timestamp))
    found += [Difference(name, left, right) for name, left, right in places if left is not None and left != right]
    return found


def topic_report(
    topic: str,
    expected: Sequence[OutputRecord],
    actual: Sequence[ActualRecord],
    found: Sequence[list[Difference]],
    file: str,
) -> str:
    """Render what is wrong with `topic`; `found` holds the differences of the records that both sides have."""
    blocks: list[str] = []
    if len(expected) != len(actual):
        blocks.append(f"topic {topic}: {len(expected)} records expected, {len(actual)} written")
    wrong = 0
    for index, (left, right) in enumerate(zip_longest(expected, actual)):
        pairs = found[index] if index < len(found) else _lonely(left, right)
        if not pairs:
            continue
        wrong += 1
        if wrong <= SHOWN_RECORDS:
            line = left.line if left is not None else None
            place = f" ({file}:{line})" if line else ""
            blocks.append(f"topic {topic}, record {index}{place}:\n{table(pairs)}")
    if wrong > SHOWN_RECORDS:
        blocks.append(f"… and {wrong - SHOWN_RECORDS} more records of topic {topic} differ")
    return "\n".join(blocks)


def table(rows: Sequence[Difference]) -> str:
    """Lay out differences in columns; long values take lines of their own."""
    cells = [(row.column, show(row.expected), show(row.actual)) for row in rows]
    if any(len(text) > _WIDTH for row in cells for text in row[1:]):
        return "\n".join(f"  {column}\n    expected  {left}\n    actual    {right}" for column, left, right in cells)
    cells = [("column", "expected", "actual"), *cells]
    widths = [max(len(row[i]) for row in cells) for i in range(2)]
    return "\n".join(f"  {column:<{widths[0]}}  {left:<{widths[1]}}  {right}" for column, left, right in cells)


def _lonely(expected: OutputRecord | None, actual: ActualRecord | None) -> list[Difference]:
    """A record that only one side has."""
    rows: list[Difference] = []
    left: list[tuple[str, Actual | Absent]] = [(n, ABSENT) for n in ("key", "value", "timestamp", "window")]
    right = list(left)
    if expected is not None:
        left = [
            ("key", expected.key),
            ("value", expected.value),
            ("timestamp", expected.timestamp),
            ("window", _window(expected.window)),
        ]
    if actual is not None:
        right = [
            ("key", actual.key),
            ("value", actual.value),
            ("timestamp", actual.timestamp),
            ("window", _window(actual.window)),
        ]
    for (column, one), (_, other) in zip(left, right, strict=True):
        if column in ("key", "value") or (one or other) not in (None, ABSENT):
            rows.append(Difference(column, one, other))
    return rows


def _window(window: Window | None) -> Actual:
    return None if window is None else {"start": window.start, "end": window.end, "type": window.kind}


def _headers(headers: Headers) -> Actual:
    return [{"KEY": name, "VALUE": value} for name, value in headers]


def record_text(record: ActualRecord) -> str:
    """One line that says what a record holds."""
    return f"key {write_json(record.key)}, value {write_json(record.value)}, timestamp {record.timestamp}"
