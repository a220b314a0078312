from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cases.model import (
    ActualRecord,
    Case,
    ExpectedTopic,
    FormatInfo,
    OutputRecord,
    Post,
    Produced,
    Status,
    Topic,
    TopicState,
)
from kestrel_qtt.judge.judge import judge

JSON = FormatInfo(format="JSON")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"plan": [{"queryPlan": {"physicalPlan": {"@type": "tableAggregateV1"}}}]}))
    return file


def stored(plan: Path, *outputs: OutputRecord, **members: Any) -> Case:
    return Case(
        id="x::n", file=plan, line=1, name="n", statements=("A",), outputs=outputs, tolerant=True, plan=plan, **members
    )


def out(key: Any, value: Any, timestamp: int = 0, topic: str = "OUT") -> OutputRecord:
    return OutputRecord(topic=topic, key=key, value=value, timestamp=timestamp)


def verdict(case: Case, *records: ActualRecord, **members: Any) -> str:
    result = judge(case, Produced({"OUT": records}, **members))
    return result.reason if result.status is Status.PASSED else "failed"


def test_the_record_after_the_undo_may_be_missing(plan: Path) -> None:
    case = stored(plan, out(1, "1"), out(1, "0"), out(1, "2"), out(2, "0"), out(2, "5"))
    records = [ActualRecord(key=1, value="1"), ActualRecord(key=1, value="2"), ActualRecord(key=2, value="5")]
    assert verdict(case, *records) == "class: double-emission"
    assert verdict(case, *records[:2]) == "failed"
    assert verdict(case, *reversed(records)) == "failed"


def test_an_undo_that_changes_nothing_is_found_too(plan: Path) -> None:
    case = stored(plan, out(1, "1"), out(1, "2"), out(1, "2"))
    assert verdict(case, ActualRecord(key=1, value="1"), ActualRecord(key=1, value="2")) == "class: double-emission"


@pytest.mark.parametrize("left_out", [out(2, "0"), out(1, "0", timestamp=9)])
def test_only_a_record_of_the_same_key_and_time_may_be_missing(plan: Path, left_out: OutputRecord) -> None:
    assert verdict(stored(plan, left_out, out(1, "1")), ActualRecord(key=1, value="1")) == "failed"


def test_a_plan_without_the_step_is_not_of_the_class(plan: Path) -> None:
    plan.write_text(json.dumps({"plan": []}))
    assert verdict(stored(plan, out(1, "0"), out(1, "1")), ActualRecord(key=1, value="1")) == "failed"


def test_our_own_cases_have_no_classes(plan: Path) -> None:
    case = stored(plan, out(1, Decimal("1.50")))
    assert verdict(case, ActualRecord(key=1, value=Decimal("1.5"))) == "class: number-spelling"
    own = Case(id="x::n", file=plan, line=1, name="n", statements=("A",), outputs=case.outputs, plan=plan)
    assert verdict(own, ActualRecord(key=1, value=Decimal("1.5"))) == "failed"


@pytest.mark.parametrize(
    ("expected", "actual", "fits"),
    [
        (Decimal("0.10"), Decimal("0.1"), True),
        (1, Decimal("1.0"), True),
        ({"A": [Decimal("1.0")]}, {"A": (Decimal("1.00"),)}, True),
        ({"A": 1}, {"A": 1, "B": None}, True),
        ({"A": 1, "B": None}, {"A": 1}, True),
        (4611686018427387900, Decimal("4.611686018427388E+18"), True),
        (Decimal("0.10"), Decimal("0.11"), False),
        ("1", Decimal("1.0"), False),
        (True, Decimal(1), False),
        ({"A": 1}, {"A": 1, "B": 2}, False),
    ],
)
def test_numbers_may_be_spelled_otherwise(plan: Path, expected: Any, actual: Any, fits: bool) -> None:
    found = verdict(stored(plan, out(1, expected)), ActualRecord(key=1, value=actual))
    assert found == ("class: number-spelling" if fits else "failed")


def test_records_of_internal_topics_are_not_ours(plan: Path) -> None:
    inner = out(1, "0", topic="_confluent-ksql-x-repartition")
    assert verdict(stored(plan, inner, out(1, "1")), ActualRecord(key=1, value="1")) == "class: internal-records"
    assert verdict(stored(plan, inner, out(1, "2")), ActualRecord(key=1, value="1")) == "failed"


def test_topics_are_as_the_case_declares_them(plan: Path) -> None:
    expected = ExpectedTopic(name="IN", key_format=JSON, value_format=JSON, partitions=4, value_schema="x")
    declared = (Topic(name="IN", partitions=1, value_schema="y"),)
    case = stored(plan, topics=declared, post=Post(topics=(expected,)))
    state = TopicState(name="IN", key_format=JSON, value_format=JSON, partitions=1, value_schema="y")
    assert verdict(case, topics=(state,)) == "class: topic-as-declared"
    other = TopicState(name="IN", key_format=JSON, value_format=FormatInfo(format="KAFKA"), partitions=1)
    assert verdict(case, topics=(other,)) == "failed"


@pytest.mark.rules("Q16.4")
def test_only_the_classes_that_are_needed_are_named(plan: Path) -> None:
    case = stored(plan, out(1, "0"), out(1, Decimal("1.0")), out(9, "1", topic="_confluent-ksql-x"))
    assert verdict(case, ActualRecord(key=1, value=Decimal("1.0"))) == "class: internal-records, double-emission"
