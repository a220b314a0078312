"""Every step version, field, value and encoding that the codec can read is in a stored plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.plan_commands.format_coverage import Shape, facts_of, shapes
from kestrel_qtt.plans.store import find_plans
from kestrel_sql.plan.table import COMMANDS, STEPS

STORE = Path(__file__).resolve().parents[2] / "historic-plans"

STEP = {
    "@type": "streamStreamJoinV1",
    "properties": {"queryContext": "Join"},
    "joinType": "LEFT",
    "keyName": "K",
    "beforeMillis": "PT1S",
    "afterMillis": 1,
    "leftInternalFormats": {
        "keyFormat": {"format": "KAFKA"},
        "valueFormat": {"format": "JSON"},
        "valueFeatures": ["WRAP_SINGLES"],
    },
    "rightSource": {
        "@type": "windowedStreamSourceV1",
        "windowInfo": {"type": "SESSION", "size": None},
        "pseudoColumnVersion": 1,
    },
    "leftSource": {"@type": "streamSelectKeyV2", "keyExpression": ["A"]},
}


def known_facts() -> frozenset[str]:
    """Every fact that the codec can read."""
    return frozenset(fact for name, shape in shapes().items() for fact in known(name, shape))


def known(name: str, shape: Shape) -> Iterator[str]:
    yield name
    for field, about in shape.items():
        yield f"{name}.{field}"
        if about.optional:
            yield f"{name}.{field} absent"
        yield from (f"{name}.{field}={value}" for value in about.values)
        yield from (f"{name}.{field} as {value}" for value in (about.encodings or {}).values())


@pytest.mark.rules("P5.1")
def test_nothing_of_the_format_is_without_a_stored_plan() -> None:
    stored: set[str] = set()
    for plan in find_plans(STORE):
        stored |= facts_of(parse_json(plan.plan_file.read_text(encoding="utf-8")))
    missing = sorted(known_facts() - stored)
    assert not missing, "\n".join(
        ["store a plan (`qtt plans record`, or `adopt` for what no planner writes) that has", *missing]
    )


def test_every_step_and_command_is_known() -> None:
    assert known_facts() >= STEPS.keys() | COMMANDS.keys()


@pytest.mark.parametrize(
    "fact",
    [
        "streamStreamJoinV1",
        "streamStreamJoinV1.joinType=LEFT",
        "streamStreamJoinV1.keyName",
        "streamStreamJoinV1.keyColName absent",
        "streamStreamJoinV1.graceMillis absent",
        "streamStreamJoinV1.beforeMillis as text",
        "streamStreamJoinV1.afterMillis as number",
        "formats.valueFeatures=WRAP_SINGLES",
        "formats.options absent",
        "keyFormat.properties absent",
        "windowInfo.type=SESSION",
        "windowInfo.size absent",
        "windowInfo.emitStrategy absent",
        "windowedStreamSourceV1.pseudoColumnVersion=1",
        "streamSelectKeyV2.keyExpression as list",
    ],
)
def test_the_facts_of_a_step(fact: str) -> None:
    assert fact in facts_of({"plan": [{"queryPlan": {"physicalPlan": STEP}}]})
    assert fact in known_facts()


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (" SESSION ( 5 SECONDS ) ", {"streamWindowedAggregateV1.windowExpression as text"}),
        (
            {"windowType": "TUMBLING", "size": {"value": 1, "timeUnit": "DAYS"}, "emitStrategy": "FINAL"},
            {"windowExpression.windowType=TUMBLING", "timeSpan.timeUnit=DAYS", "windowExpression.gap absent"},
        ),
    ],
)
def test_the_facts_of_a_window(expression: Any, found: set[str]) -> None:
    facts = facts_of({"@type": "streamWindowedAggregateV1", "windowExpression": expression})
    assert found <= facts
    assert found <= known_facts()


@pytest.mark.rules("P5.4")
def test_a_join_has_the_types_that_it_can_have() -> None:
    types = {fact for fact in known_facts() if ".joinType=" in fact}
    assert "tableTableJoinV1.joinType=RIGHT" in types
    assert "streamTableJoinV1.joinType=RIGHT" not in types


def test_every_spec_of_ours_has_a_hash_of_its_own() -> None:
    specs = {file: json.loads(file.read_text(encoding="utf-8")) for file in STORE.rglob("spec.json")}
    assert [str(file) for file, spec in specs.items() if "hash" in spec and "specHash" not in spec] == []
