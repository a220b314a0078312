"""Name what differs inside a key or value (rule Q8.4). deepdiff walks both sides; what is equal, says `compare`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kestrel_qtt.cases.model import Actual, Json
from kestrel_qtt.judge.compare import ABSENT, Difference, Rules, is_array, is_same, is_same_scalar, name_in, top_level

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


@dataclass(frozen=True, slots=True)
class _Whole:
    """An object whose names are spelled twice, so that no member says how it differs from the expected one."""

    value: Mapping[str, Actual]


@dataclass(frozen=True, slots=True)
class _Scalars:
    """An operator of deepdiff: by our rules, equal numbers may have other types, and others are not equal."""

    rules: Rules

    def match(self, level: Any) -> bool:
        """Say whether one of the values is no object and no array."""
        return not any(isinstance(level.t1, kind) and isinstance(level.t2, kind) for kind in (dict, list))

    def give_up_diffing(self, level: Any, diff_instance: Any) -> bool:
        """Report values that are not the same; deepdiff looks no further."""
        if not is_same_scalar(level.t1, level.t2, self.rules):
            diff_instance.custom_report_result(_VALUE, level)
        return True


def _as_expected(expected: Json, actual: Actual) -> Any:
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
