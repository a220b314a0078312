"""Compare an expected JSON value with an actual one, by the type of the expected one (rules Q8.2)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Final, Protocol, TypeGuard

import msgspec

from kestrel_qtt.cases.model import Actual, Json, Matching

TOLERANCE: Final = 1e-6
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


class Absent(Enum):
    """Marks a column that one side does not have."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class Difference(msgspec.Struct, frozen=True):
    """A column in which the two sides differ."""

    column: str
    expected: Actual | Absent
    actual: Actual | Absent


class Rules(msgspec.Struct, frozen=True):
    """How a value is compared: `exact` False reads the fractions of the actual side as doubles.

    The tolerance of `matching` is how far a number with a fraction may be off; None compares doubles within
    `TOLERANCE`, decimals exactly. What it ignores is not compared.
    """

    exact: bool = True
    matching: Matching = msgspec.field(default_factory=Matching)

    def ignores(self, column: str) -> bool:
        """Say whether a column is not compared."""
        return bool(self.matching.ignore) and self.matching.ignores(column)


_BY_DEFAULT = Rules()


def is_same(expected: Json, actual: Actual, column: str = "", rules: Rules = _BY_DEFAULT) -> bool:
    """Say whether a key or value, which `column` names, is the expected one."""
    return rules.ignores(column) or _is_same(expected, top_level(actual), column, rules)


def top_level(actual: Actual) -> Actual:
    """Replace byte columns of the outermost object by base64 text, and empty ones by null."""
    if not isinstance(actual, Mapping):
        return actual
    return {name: (_base64(value) or None) if isinstance(value, bytes) else value for name, value in actual.items()}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _is_same(expected: Json, actual: Actual, column: str, rules: Rules) -> bool:
    if isinstance(expected, dict) and isinstance(actual, Mapping):
        return _are_same_objects(expected, actual, column, rules)
    if isinstance(expected, list) and is_array(actual):
        return len(expected) == len(actual) and all(
            _is_same(left, right, column, rules) for left, right in zip(expected, actual, strict=True)
        )
    return is_same_scalar(expected, actual, rules)


def is_array(actual: Actual) -> TypeGuard[Sequence[Actual]]:
    """Say whether an actual value is an array."""
    return isinstance(actual, Sequence) and not isinstance(actual, (str, bytes))


def _are_same_objects(expected: dict[str, Json], actual: Mapping[str, Actual], column: str, rules: Rules) -> bool:
    same_size = len(expected) == len(actual)
    used: set[str] = set()
    for name, value in expected.items():
        key = name_in(actual, name)
        used.add(key)
        if rules.ignores(f"{column}.{name}"):
            continue
        if key in actual:
            if not _is_same(value, actual[key], f"{column}.{name}", rules):
                return False
        elif value is not None or not same_size:
            return False
    if same_size:
        return True
    # Names of one size that all have a partner are spelled twice on a side.
    unequal = used.symmetric_difference(actual)
    return bool(unequal) and all(rules.ignores(f"{column}.{name}") for name in unequal)


def name_in(actual: Mapping[str, Actual], name: str) -> str:
    """Return the name under which an actual object has an expected member, if it has it: as it is, or in upper case."""
    return name if name in actual or name.upper() not in actual else name.upper()


def is_same_scalar(expected: Json, actual: Actual, rules: Rules) -> bool:
    """Compare values of which one at least is no object and no array."""
    if expected is None or isinstance(expected, bool):
        return actual is expected
    if isinstance(expected, str):
        return _text(expected, actual)
    if isinstance(expected, (int, Decimal)):
        number = float(actual) if isinstance(actual, Decimal) and not rules.exact else actual
        return _number(expected, number) or _is_within(expected, number, rules.matching.tolerance)
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


_VALUE = "value_differs"


def differences(expected: Json, actual: Actual, column: str, rules: Rules) -> list[Difference]:
    """Compare a key or value: members that differ, then those that are missing, then those that nobody expects."""
    if is_same(expected, actual, column, rules):
        return []
    # Takes half a second, and most runs have no difference to show.
    from deepdiff import DeepDiff
    from deepdiff.helper import notpresent

    tree = DeepDiff(
        expected,
        _as_expected(expected, top_level(actual)),
        view="tree",
        custom_operators=[_Scalars(rules)],
        exclude_regex_paths=list(_ignored(column, rules)),
        ignore_private_variables=False,
        threshold_to_diff_deeper=0,
        zip_ordered_iterables=True,
    )
    levels = [level for found in tree.values() for level in found]
    levels.sort(key=lambda level: (level.t1 is notpresent, level.t2 is notpresent))
    return [
        Difference(
            column
            + "".join(
                f"[{step}]" if isinstance(step, int) else f".{step}" for step in level.path(output_format="list")
            ),
            ABSENT if level.t1 is notpresent else level.t1,
            ABSENT if level.t2 is notpresent else level.t2.value if isinstance(level.t2, _Whole) else level.t2,
        )
        for level in levels
    ]


class _Whole(msgspec.Struct, frozen=True):
    """An object whose names are spelled twice, so that no member says how it differs from the expected one."""

    value: Mapping[str, Actual]


class _Level(Protocol):
    t1: Json
    t2: Actual


class _Diff(Protocol):
    def custom_report_result(self, kind: str, level: _Level) -> None: ...


class _Scalars(msgspec.Struct, frozen=True):
    """An operator of deepdiff: by our rules, equal numbers may have other types, and others are not equal."""

    rules: Rules

    def match(self, level: _Level) -> bool:
        """Say whether one of the values is no object and no array."""
        return not any(isinstance(level.t1, kind) and isinstance(level.t2, kind) for kind in (dict, list))

    def give_up_diffing(self, level: _Level, diff_instance: _Diff) -> bool:
        """Report values that are not the same; deepdiff looks no further."""
        if not is_same_scalar(level.t1, level.t2, self.rules):
            diff_instance.custom_report_result(_VALUE, level)
        return True


def _as_expected(expected: Json, actual: Actual) -> object:
    """An actual value with the names as the expected one spells them, without NULLs that stand for absent members."""
    if isinstance(expected, list) and is_array(actual):
        both = [_as_expected(left, right) for left, right in zip(expected, actual, strict=False)]
        return both + list(actual[len(both) :])
    if not (isinstance(expected, dict) and isinstance(actual, Mapping)):
        return actual
    names = {name: name_in(actual, name) for name in expected}
    known = {name: _as_expected(expected[name], actual[key]) for name, key in names.items() if key in actual}
    if len(expected) == len(actual):
        return known | {name: None for name, value in expected.items() if value is None and name not in known}
    others = {name: value for name, value in actual.items() if name not in names.values()}
    spelled_twice = known.keys() == expected.keys() and not others
    return _Whole(actual) if spelled_twice or others.keys() & known.keys() else known | others


def _ignored(column: str, rules: Rules) -> Iterator[re.Pattern[str]]:
    """What is not compared, as deepdiff writes paths: `value.ITEMS.PRICE` is `root['ITEMS'][0]['PRICE']`."""
    for path in rules.matching.ignore:
        first, *names = path.split(".")
        if first.upper() == column.upper() and names:
            below = r"(?:['\"\]](?:\[\d+\])*\[['\"]|\.)".join(map(re.escape, names))
            yield re.compile(rf"^root(?:\[\d+\])*\[['\"]{below}['\".]", re.IGNORECASE)
