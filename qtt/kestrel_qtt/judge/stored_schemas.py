"""Compare the serdes of a query with the `schemas` of its stored spec (rules Q16.2 and Q16.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kestrel_qtt.cases.model import FormatInfo, SerdeInfo
from kestrel_qtt.judge.column_lists import canonical_columns


def serde_failures(expected: Mapping[str, SerdeInfo], actual: Mapping[str, SerdeInfo]) -> list[str]:
    """Return how the topics and stores of a query differ from the expected ones, one message each."""
    failures = [
        f"schemas: {name} is expected, but nothing is written there" for name in expected.keys() - actual.keys()
    ]
    failures += [f"schemas: {name} is written, but not expected" for name in actual.keys() - expected.keys()]
    both = sorted(expected.keys() & actual.keys())
    return sorted(failures) + [text for name in both for text in _differences(name, expected[name], actual[name])]


def _differences(name: str, expected: SerdeInfo, actual: SerdeInfo) -> Iterator[str]:
    wanted, found = canonical_columns(expected.schema), canonical_columns(actual.schema)
    if wanted != found:
        yield f"schemas: {name}: schema is\n    {found}\n  expected\n    {wanted}"
    sides = (("key", expected.key_format, actual.key_format), ("value", expected.value_format, actual.value_format))
    for side, left, right in sides:
        if _whole(left) != _whole(right):
            yield f"schemas: {name}: {side} format is {_whole(right)}, expected {_whole(left)}"


def _whole(info: FormatInfo | None) -> object:
    if info is None:
        return "absent"
    return info.format, dict(info.properties), sorted(info.features), info.window_type, info.window_size
