"""Our stored plans decode to the same plan when they are written as older releases wrote them (rules P4, P5 and P8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.plan_commands.format_coverage import facts_of
from kestrel_sql.plan.codec.json_text import read_json
from kestrel_sql.plan.codec.plan_file import PlanFile, decode_plan, load_plan

STORE = Path(__file__).resolve().parents[3] / "historic-plans"
Object = dict[str, Any]
Change = Callable[[Object], bool]

DEFAULTS: Object = {
    "orReplace": False,
    "isSource": False,
    "forceChangelog": False,
    "pseudoColumnVersion": 0,
    "properties": {},
    "keyFeatures": [],
    "valueFeatures": [],
    "options": [],
    "runtimeId": None,
}
OPTIONS = {"WRAP_SINGLES": "WRAP_SINGLE_VALUES", "UNWRAP_SINGLES": "UNWRAP_SINGLE_VALUES"}
LENGTHS = {"TUMBLING": ("size",), "HOPPING": ("size", "advanceBy"), "SESSION": ("gap",)}
WORDS = {
    "size": "SIZE ",
    "advanceBy": "ADVANCE BY ",
    "gap": "",
    "retention": "RETENTION ",
    "gracePeriod": "GRACE PERIOD ",
}


@cache
def stored() -> tuple[tuple[str, PlanFile], ...]:
    """The text and the plan of each stored plan; plans that differ in names only count once."""
    texts = {
        frozenset(facts_of(read_json(text))): text
        for text in (file.read_text(encoding="utf-8") for file in plan_files())
    }
    return tuple((text, load_plan(text)) for text in texts.values())


def plan_files() -> list[Path]:
    return sorted(STORE.rglob("plan.json"))


def objects(value: Any) -> Iterator[Object]:
    if isinstance(value, dict):
        yield value
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(member)


def replace(of: Object, name: str, value: Any, new_name: str | None = None) -> bool:
    """Replace the value of a member, and its name if `new_name` is set."""
    items = [(new_name or name, value) if key == name else (key, member) for key, member in of.items()]
    of.clear()
    of.update(items)
    return True


def without_nulls(of: Object) -> bool:
    nulls = [name for name, value in of.items() if value is None]
    for name in nulls:
        del of[name]
    return bool(nulls)


def without_defaults(of: Object) -> bool:
    default = [name for name, value in of.items() if name in DEFAULTS and value == DEFAULTS[name]]
    for name in default:
        del of[name]
    return bool(default)


def with_nulls(of: Object) -> bool:
    if of.get("@type") not in ("streamSinkV1", "tableSinkV1", "streamSourceV1") or "timestampColumn" in of:
        return False
    of["timestampColumn"] = None
    return True


def options(of: Object) -> bool:
    if "keyFormat" not in of or "options" in of:
        return False
    of["options"] = [OPTIONS[word] for word in of.pop("valueFeatures", [])]
    return True


def window_text(of: Object) -> bool:
    window = of.get("windowExpression")
    if not isinstance(window, dict) or window.get("emitStrategy"):
        return False
    parts = [name for name in (*LENGTHS[window["windowType"]], "retention", "gracePeriod") if window.get(name)]
    inside = " , ".join(f"{WORDS[name]}{window[name]['value']} {window[name]['timeUnit']}" for name in parts)
    return replace(of, "windowExpression", f" {window['windowType']} ( {inside} ) ")


def iso_durations(of: Object) -> bool:
    names = [name for name in ("beforeMillis", "afterMillis", "graceMillis") if isinstance(of.get(name), int | Decimal)]
    if of.get("type") in ("TUMBLING", "HOPPING") and isinstance(of.get("size"), int | Decimal):
        names.append("size")
    for name in names:
        replace(of, name, f"PT{Decimal(of[name]).normalize():f}S")
    return bool(names)


def key_name(of: Object) -> bool:
    return isinstance(of.get("keyColName"), str) and replace(of, "keyColName", of["keyColName"], "keyName")


def one_key_as_text(of: Object) -> bool:
    keys = of.get("keyExpression")
    return isinstance(keys, list) and len(keys) == 1 and replace(of, "keyExpression", keys[0])


def synonyms(of: Object) -> bool:
    names = [name for name in ("schema", "sourceSchema") if isinstance(of.get(name), str)]
    spelled = {
        name: of[name].replace("` INTEGER", "`  INT").replace("` STRING", "` VARCHAR").replace(", `", ",`")
        for name in names
    }
    of.update(spelled)
    return bool(names)


def key_field(of: Object) -> bool:
    if of.get("@type") not in ("createStreamV1", "createTableV1"):
        return False
    of["keyField"] = "ANY"
    return True


CHANGES: tuple[Change, ...] = (
    without_nulls,
    without_defaults,
    with_nulls,
    options,
    window_text,
    iso_durations,
    key_name,
    one_key_as_text,
    synonyms,
    key_field,
)


@pytest.mark.rules("P8.1", "P1.5")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_an_older_spelling_decodes_to_the_same_plan(change: Change) -> None:
    changed = 0
    for text, plan in stored():
        other = read_json(text)
        for of in list(objects(other["plan"])):
            changed += change(of)
        assert decode_plan(other) == plan
    assert changed
