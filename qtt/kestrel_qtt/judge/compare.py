"""Compare an expected JSON value with an actual one, by the type of the expected one (rules Q8.2)."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Final

from kestrel_qtt.cases.model import Actual, Json

TOLERANCE: Final = 1e-6
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


class Absent(Enum):
    """Marks a column that one side does not have."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Difference:
    """A column in which the two sides differ."""

    column: str
    expected: Actual | Absent
    actual: Actual | Absent


@dataclass(frozen=True, slots=True)
class Numbers:
    """How numbers are compared: `exact` False reads the fractions of the actual side as doubles.

    `tolerance` is how far a number with a fraction may be off; None compares doubles within `TOLERANCE`, decimals
    exactly.
    """

    exact: bool = True
    tolerance: Decimal | None = None


def differences(
    expected: Json, actual: Actual, column: str, *, exact: bool = True, tolerance: Decimal | None = None
) -> list[Difference]:
    """Compare a key or value; `exact` is the property `use.exact.numeric.comparison`, `tolerance` that of `Numbers`."""
    return list(_compare(expected, _top_level(actual), column, Numbers(exact, tolerance)))


def _top_level(actual: Actual) -> Actual:
    """Replace byte columns of the outermost object by base64 text, and empty ones by null."""
    if not isinstance(actual, Mapping):
        return actual
    return {name: (_base64(value) or None) if isinstance(value, bytes) else value for name, value in actual.items()}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _compare(expected: Json, actual: Actual, column: str, numbers: Numbers) -> Iterator[Difference]:
    if isinstance(expected, dict) and isinstance(actual, Mapping):
        yield from _objects(expected, actual, column, numbers)
    elif isinstance(expected, list) and isinstance(actual, Sequence) and not isinstance(actual, (str, bytes)):
        yield from _lists(expected, actual, column, numbers)
    elif not _scalar(expected, actual, numbers):
        yield Difference(column, expected, actual)


def _objects(
    expected: dict[str, Json], actual: Mapping[str, Actual], column: str, numbers: Numbers
) -> list[Difference]:
    same_size = len(expected) == len(actual)
    found: list[Difference] = []
    used: set[str] = set()
    for name, value in expected.items():
        key = name if actual.get(name) is not None or name.upper() not in actual else name.upper()
        if key in actual:
            used.add(key)
            found += _compare(value, actual[key], f"{column}.{name}", numbers)
        elif value is not None or not same_size:
            found.append(Difference(f"{column}.{name}", value, ABSENT))
    if not same_size:
        found += [Difference(f"{column}.{name}", ABSENT, value) for name, value in actual.items() if name not in used]
        if not found:
            found.append(Difference(column, expected, actual))
    return found


def _lists(expected: list[Json], actual: Sequence[Actual], column: str, numbers: Numbers) -> Iterator[Difference]:
    for index in range(max(len(expected), len(actual))):
        at = f"{column}[{index}]"
        if index >= len(expected):
            yield Difference(at, ABSENT, actual[index])
        elif index >= len(actual):
            yield Difference(at, expected[index], ABSENT)
        else:
            yield from _compare(expected[index], actual[index], at, numbers)


def _scalar(expected: Json, actual: Actual, numbers: Numbers) -> bool:
    if expected is None or isinstance(expected, bool):
        return actual is expected
    if isinstance(expected, str):
        return _text(expected, actual)
    if isinstance(expected, (int, Decimal)):
        number = float(actual) if isinstance(actual, Decimal) and not numbers.exact else actual
        return _number(expected, number) or _is_within(expected, number, numbers.tolerance)
    return False


def _text(expected: str, actual: Actual) -> bool:
    if isinstance(actual, bytes):
        return expected == _base64(actual)
    if isinstance(actual, Decimal):
        try:
            return same_decimal(Decimal(expected), actual)
        except InvalidOperation:
            return False
    return isinstance(actual, str) and expected == actual


def _number(expected: int | Decimal, actual: Actual) -> bool:
    if isinstance(actual, bool):
        return False
    if isinstance(actual, int):
        return _is_long(actual) and int(expected) == actual
    if isinstance(actual, float):
        return _is_near(expected, actual)
    if not isinstance(actual, Decimal):
        return False
    if isinstance(expected, Decimal):
        return same_decimal(expected, actual)
    exponent = actual.as_tuple().exponent
    return _is_long(expected) and isinstance(exponent, int) and exponent >= 0 and expected == actual


def _is_near(expected: int | Decimal, actual: float) -> bool:
    try:
        return abs(float(expected) - actual) < TOLERANCE
    except OverflowError:
        return False


def _is_within(expected: int | Decimal, actual: Actual, tolerance: Decimal | None) -> bool:
    """Say whether two numbers, of which one has a fraction, are within a tolerance."""
    if tolerance is None or isinstance(actual, bool) or not isinstance(actual, (int, float, Decimal)):
        return False
    if isinstance(expected, int) and isinstance(actual, int):
        return False
    number = Decimal(str(actual)) if isinstance(actual, float) else Decimal(actual)
    return number.is_finite() and abs(Decimal(expected) - number) <= tolerance


def same_decimal(left: Decimal, right: Decimal) -> bool:
    """Say whether two decimals are equal, scale included. There is no negative zero, and nothing equals NaN."""
    if not (left.is_finite() and right.is_finite()):
        return False
    return left == right and left.as_tuple().exponent == right.as_tuple().exponent


def _is_long(value: int) -> bool:
    return _LONG_MIN <= value <= _LONG_MAX
