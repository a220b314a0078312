"""A plan of a newer engine is refused: the error names the unknown part and both versions."""

from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.errors import NewerPlanError, PlanError
from kestrel_sql.plan.codec.plan_file import WRITTEN_BY, decode_plan, decode_statement, engine_version
from tests.engine.plan import plan_samples as sample


def root(**members: Any) -> sample.Document:
    return sample.query({**sample.sink(sample.select(sample.stream(), "TAG AS TAG")), **members})


def formats(**members: Any) -> sample.Document:
    return {**sample.formats(), **members}


PSEUDO_2 = {"pseudoColumnVersion": 2}
ROOT = "$.plan[0].queryPlan.physicalPlan"


@pytest.mark.rules("P1.4")
@pytest.mark.parametrize(
    ("statement", "path", "part"),
    [
        (root(sinkMode="FAST"), f"{ROOT}.sinkMode", "the field sinkMode"),
        (root(**{"@type": "streamSinkV2"}), f"{ROOT}.@type", "the type streamSinkV2"),
        ({**root(), "@type": "ksqlPlanV2"}, "$.plan[0].@type", "the type ksqlPlanV2"),
        (sample.query(sample.stream_join(joinType="ASOF")), f"{ROOT}.joinType", "the value ASOF"),
        (
            root(source=sample.stream() | PSEUDO_2),
            f"{ROOT}.source.pseudoColumnVersion",
            "version 2 of the pseudo columns",
        ),
        (root(formats=formats(valueFeatures=["WRAP_ALL"])), f"{ROOT}.formats.valueFeatures[0]", "the value WRAP_ALL"),
        (root(formats=formats(compression="ZSTD")), f"{ROOT}.formats.compression", "the field compression"),
        (
            sample.query(sample.windowed(sample.window("SLIDING"))),
            f"{ROOT}.windowExpression.windowType",
            "the value SLIDING",
        ),
        (
            sample.query(sample.windowed(sample.window("TUMBLING", size=sample.span(1, "WEEKS")))),
            f"{ROOT}.windowExpression.size.timeUnit",
            "the unit WEEKS",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_the_part_and_both_versions_are_named(statement: sample.Document, path: str, part: str) -> None:
    with pytest.raises(NewerPlanError) as caught:
        decode_plan({"plan": [statement], "configs": {WRITTEN_BY: "97.5.0"}})
    assert caught.value.path == path
    assert (
        f"written by version 97.5.0, and this version, {engine_version()}, does not know {part}" in caught.value.message
    )
    assert caught.value.message.startswith(f"{path}: ")


def test_a_caller_can_name_the_version_that_wrote_the_plan() -> None:
    with pytest.raises(NewerPlanError, match=r"written by version 8\.5\.0"):
        decode_plan({"plan": [], "configs": {WRITTEN_BY: "97.5.0"}, "checksum": 1}, "8.5.0")


@pytest.mark.parametrize("configs", [None, [], {}, {WRITTEN_BY: 3}])
def test_a_plan_need_not_name_the_version_that_wrote_it(configs: Any) -> None:
    with pytest.raises(NewerPlanError, match="written by an unknown version"):
        decode_plan({"plan": [], "configs": configs, "checksum": 1})
    with pytest.raises(NewerPlanError, match="written by an unknown version"):
        decode_statement(root(sinkMode="FAST"))


def test_a_near_miss_keeps_its_hint() -> None:
    with pytest.raises(NewerPlanError) as caught:
        decode_statement(root(topicNam="x"))
    assert caught.value.hint == "did you mean topicName?"


@pytest.mark.parametrize("statement", [root(topicName=7), root(topicName=None), sample.ddl(sample.create(schema="("))])
def test_a_plan_that_no_release_can_read_is_not_called_newer(statement: sample.Document) -> None:
    with pytest.raises(PlanError) as caught:
        decode_plan({"plan": [statement]})
    assert not isinstance(caught.value, NewerPlanError)
