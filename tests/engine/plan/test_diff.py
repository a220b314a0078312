from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.plan.codec.plan_file import decode_plan
from kestrel_sql.plan.diff import diff_plans
from tests.engine.plan.plan_samples_text import aggregate_plan

SWITCH = "ksql.cast.strings.preserve.nulls"


def differences(change: Any, restored: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    document = aggregate_plan()
    change(document)
    changes = diff_plans(decode_plan(aggregate_plan()), decode_plan(document), restored)
    return [(change.path.rpartition(".")[2], change.left, change.right) for change in changes]


@pytest.mark.rules("P1.3")
def test_spellings_of_older_releases_are_no_differences() -> None:
    def older(document: Any) -> None:
        document["plan"][0] |= {"statementText": "other", "queryPlan": None}
        document["plan"][0]["ddlCommand"] |= {"windowInfo": None, "orReplace": False, "keyField": "K"}
        document["plan"][1]["queryPlan"]["physicalPlan"]["source"]["internalFormats"] = None

    assert differences(older) == []


def test_a_changed_field_is_named_with_the_steps_on_its_path() -> None:
    document = aggregate_plan()
    document["plan"][1]["queryPlan"]["physicalPlan"]["source"]["selectExpressions"] = ["1 AS S"]
    (change,) = diff_plans(decode_plan(aggregate_plan()), decode_plan(document))
    assert (
        change.path
        == "plan[1]<ksqlPlanV1>.queryPlan.physicalPlan<tableSinkV1>.source<tableSelectV1>.selectExpressions[0]"
    )
    assert str(change).splitlines()[1:] == ["  - KSQL_AGG_VARIABLE_0 AS S", "  + 1 AS S"]


def test_a_replaced_step_is_one_difference() -> None:
    def other(document: Any) -> None:
        query = document["plan"][1]["queryPlan"]
        query["physicalPlan"]["source"] = query["physicalPlan"]["source"]["source"]

    assert differences(other) == [("source", "tableSelectV1", "streamAggregateV1")]


def test_statements_may_be_missing() -> None:
    assert differences(lambda document: document["plan"].pop()) == [("plan[1]", "ksqlPlanV1", "(absent)")]


def test_restored_configs_count_and_others_do_not() -> None:
    def configured(document: Any) -> None:
        document["configs"] = {SWITCH: "true", "state.dir": "/tmp"}

    assert differences(configured) == []
    assert differences(configured, (SWITCH,)) == [("nulls", "false", "true")]
