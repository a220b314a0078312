from __future__ import annotations

from typing import Any

from kestrel_qtt.plan_commands.text import explain_plan
from kestrel_sql.plan.codec.plan_file import decode_plan
from tests.engine.plan.plan_samples_text import aggregate_plan


def test_a_query_is_a_tree_from_sink_to_source() -> None:
    lines = explain_plan(decode_plan(aggregate_plan())).splitlines()
    steps = [line for line in lines if "V1 [" in line]
    assert [line.strip(" │└─") for line in steps] == [
        "tableSinkV1 [OUT]",
        "tableSelectV1 [Aggregate/Project]",
        "streamAggregateV1 [Aggregate/Aggregate]",
        "streamGroupByKeyV1 [Aggregate/GroupBy]",
        "streamSelectV1 [Aggregate/Prepare]",
        "streamSourceV1 [KsqlTopic/Source]",
    ]
    assert [line.index(line.strip(" │└─")) for line in steps] == sorted(
        {line.index(line.strip(" │└─")) for line in steps}
    )
    assert "   query CTAS_OUT_0: from IN into OUT" in lines
    assert any("aggregationFunctions: SUM(V)" in line for line in lines)


def test_fields_with_default_values_are_left_out() -> None:
    text = explain_plan(decode_plan(aggregate_plan()))
    assert "None" not in text
    assert "orReplace" not in text
    assert "keyFormat: KAFKA, valueFormat: JSON" in text


def test_a_join_names_its_sides() -> None:
    document = aggregate_plan()
    query: Any = document["plan"][1]["queryPlan"]
    source = query["physicalPlan"]["source"]["source"]["source"]["source"]
    join = {
        "@type": "streamStreamJoinV1",
        "properties": {"queryContext": "Join"},
        "joinType": "INNER",
        "leftSource": source,
        "rightSource": source,
        "leftInternalFormats": query["physicalPlan"]["formats"],
        "rightInternalFormats": query["physicalPlan"]["formats"],
        "beforeMillis": 1,
        "afterMillis": 1,
    }
    query["physicalPlan"]["source"]["source"]["source"]["source"] = join
    text = explain_plan(decode_plan(document))
    assert "├─ left: streamSelectV1" in text
    assert "└─ right: streamSelectV1" in text
