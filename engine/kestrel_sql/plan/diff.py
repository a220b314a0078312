"""Compares two plans field by field, apart from statement texts and configs that no replay restores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kestrel_sql.plan.codec.plan_file import PlanFile, encode_statement

_IGNORED = frozenset({"statementText"})
_ABSENT = "(absent)"


class PlanDifference(msgspec.Struct, frozen=True):
    """One field in which two plans differ: its JSON path with the steps on the way, and both values as text."""

    path: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.path}\n  - {self.left}\n  + {self.right}"


def diff_plans(left: PlanFile, right: PlanFile, restored: tuple[str, ...] = ()) -> tuple[PlanDifference, ...]:
    """Compare two plans and the configs named in `restored`; a config that is missing counts as false.

    Both plans are compared in today's form, so the spellings of older releases do not count as differences.
    """
    differences = list(
        _lists([encode_statement(s) for s in left.statements], [encode_statement(s) for s in right.statements], "plan")
    )
    for name in restored:
        old, new = (plan.configs.get(name) or "false" for plan in (left, right))
        if old != new:
            differences.append(PlanDifference(f"configs.{name}", old, new))
    return tuple(differences)


def _compare(left: object, right: object, path: str) -> Iterator[PlanDifference]:
    if isinstance(left, dict) and isinstance(right, dict) and left.get("@type") == right.get("@type"):
        yield from _objects(left, right, f"{path}<{left['@type']}>" if "@type" in left else path)
    elif isinstance(left, list) and isinstance(right, list):
        yield from _lists(left, right, path)
    elif left != right:
        yield PlanDifference(path, _text(left), _text(right))


def _objects(left: Mapping[str, object], right: Mapping[str, object], path: str) -> Iterator[PlanDifference]:
    for name in dict.fromkeys((*left, *right)):
        if name not in _IGNORED:
            yield from _compare(left.get(name), right.get(name), f"{path}.{name}")


def _lists(left: list[object], right: list[object], path: str) -> Iterator[PlanDifference]:
    for index in range(max(len(left), len(right))):
        item = f"{path}[{index}]"
        if index >= len(left):
            yield PlanDifference(item, _ABSENT, _text(right[index]))
        elif index >= len(right):
            yield PlanDifference(item, _text(left[index]), _ABSENT)
        else:
            yield from _compare(left[index], right[index], item)


def _text(value: object) -> str:
    match value:
        case None:
            return _ABSENT
        case {"@type": str(tag)}:
            return tag
        case dict():
            members = ", ".join(f"{name}: {_text(member)}" for name, member in value.items() if member is not None)
            return f"{{{members}}}"
        case list():
            return "[" + ", ".join(map(_text, value)) + "]"
        case _:
            return str(value)
