from __future__ import annotations

from typing import Any

import pytest

from kestrel_qtt.ksqldb.stored_serdes import Serde, plan_serdes
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.codec.plan_file import decode_plan
from kestrel_sql.plan.step import WindowInfo, WindowType
from tests.engine.plan.plan_samples_text import aggregate_plan

FORMATS = {"keyFormat": {"format": "KAFKA"}, "valueFormat": {"format": "JSON"}}


def serdes(document: dict[str, Any]) -> dict[str, Serde]:
    query = decode_plan(document).statements[1].query_plan
    assert query is not None
    return {name.partition(".")[2]: serde for name, serde in plan_serdes(query, FUNCTIONS).items()}


def test_the_serdes_of_an_aggregation() -> None:
    assert {name: str(serde.schema) for name, serde in serdes(aggregate_plan()).items()} == {
        "KsqlTopic.Source": "`K` INTEGER KEY, `V` BIGINT",
        "Aggregate.GroupBy": "`K` INTEGER KEY, `K` INTEGER, `V` BIGINT",
        "Aggregate.Aggregate.Materialize": "`K` INTEGER KEY, `K` INTEGER, `V` BIGINT, `KSQL_AGG_VARIABLE_0` BIGINT",
        "OUT": "`K` INTEGER KEY, `S` BIGINT",
    }


def test_a_store_holds_the_state_type_of_the_function() -> None:
    document = aggregate_plan()
    document["plan"][1]["queryPlan"]["physicalPlan"]["source"]["source"]["aggregationFunctions"] = ["AVG(V)"]
    assert str(serdes(document)["Aggregate.Aggregate.Materialize"].schema).endswith(
        "`KSQL_AGG_VARIABLE_0` STRUCT<`SUM` BIGINT, `COUNT` BIGINT>"
    )


def test_the_store_of_a_windowed_aggregation_has_no_window_and_its_sink_has_one() -> None:
    document = aggregate_plan()
    step = document["plan"][1]["queryPlan"]["physicalPlan"]["source"]["source"]
    step |= {"@type": "streamWindowedAggregateV1", "windowExpression": " TUMBLING ( SIZE 2 SECONDS ) "}
    by_name = serdes(document)
    store, sink = by_name["Aggregate.Aggregate.Materialize"], by_name["OUT"]
    assert store.key is not None
    assert store.key.window is None
    assert "WINDOWSTART" not in str(store.schema)
    assert sink.key is not None
    assert sink.key.window == WindowInfo(WindowType.TUMBLING, 2000)


@pytest.mark.parametrize(("join_type", "first"), [("LEFT", "L_K"), ("RIGHT", "R_K")])
def test_a_right_join_is_a_left_join_with_swapped_sides(join_type: str, first: str) -> None:
    document = aggregate_plan()
    select = document["plan"][1]["queryPlan"]["physicalPlan"]["source"]["source"]["source"]["source"]
    sides = {}
    for side, alias in (("leftSource", "L"), ("rightSource", "R")):
        sides[side] = {**select, "keyColumnNames": [f"{alias}_K"], "selectExpressions": [f"V AS {alias}_V"]}
    join = {
        "@type": "streamStreamJoinV1",
        "properties": {"queryContext": "Join"},
        "joinType": join_type,
        "keyColName": "K",
        **sides,
    }
    join |= {"leftInternalFormats": FORMATS, "rightInternalFormats": FORMATS, "beforeMillis": 1, "afterMillis": 1}
    sink = {
        "@type": "streamSinkV1",
        "properties": {"queryContext": "OUT"},
        "formats": FORMATS,
        "topicName": "OUT",
        "source": join,
    }
    document["plan"][1]["queryPlan"]["physicalPlan"] = sink
    by_name = serdes(document)
    assert by_name["Join"].schema.key[0].name == by_name["Join.Left"].schema.key[0].name == first
    assert by_name["Join"].value is None
    assert by_name["Join.Right"].key is None
