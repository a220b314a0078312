from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from kestrel_sql.errors import PlanError
from kestrel_sql.plan.codec.json_text import MAX_DEPTH, read_json
from kestrel_sql.plan.codec.plan_file import (
    PlanFile,
    decode_plan,
    decode_statement,
    dump_plan,
    encode_plan,
    encode_statement,
    load_plan,
)
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1
from kestrel_sql.plan.step import SerdeFeature, Step
from kestrel_sql.plan.steps.aggregates import StreamWindowedAggregateV1
from kestrel_sql.plan.steps.joins import StreamStreamJoinV1, StreamTableJoinV1
from kestrel_sql.plan.steps.sources import StreamSourceV1
from kestrel_sql.plan.steps.streams import StreamSelectKeyV2, StreamSelectV1
from kestrel_sql.plan.table import COMMANDS, STEPS
from kestrel_sql.sql.nodes.expressions import ColumnRef
from kestrel_sql.sql.nodes.statements import Emit, HoppingWindow, SessionWindow, TimeSpan, TumblingWindow
from tests.engine.plan import plan_samples as sample


def root(document: sample.Document) -> Step:
    plan = decode_statement(sample.query(document)).query_plan
    assert plan is not None
    return plan.physical_plan


def refused(document: Any, path: str, message: str = "") -> None:
    with pytest.raises(PlanError) as caught:
        decode_statement(document)
    assert caught.value.path == path
    assert message in caught.value.message


def tags(document: Any) -> set[str]:
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    own = {document["@type"]} if isinstance(document, dict) and "@type" in document else set()
    return own.union(*map(tags, inner))


def test_the_sample_uses_every_step_and_command() -> None:
    assert tags(sample.plan()) == {*STEPS, *COMMANDS, "ksqlPlanV1"}


@pytest.mark.rules("P9.2", "P2.1", "P3.1", "P4.7", "P4.8")
def test_a_plan_of_today_is_written_as_it_was_read() -> None:
    document = sample.plan()
    assert encode_plan(decode_plan(document)) == document


def test_text_and_document_decode_to_the_same_plan() -> None:
    plan = decode_plan(sample.plan())
    assert load_plan(dump_plan(plan)) == plan
    assert dump_plan(load_plan(dump_plan(plan))) == dump_plan(plan)


def test_a_single_statement_survives_a_round_trip() -> None:
    for document in sample.plan()["plan"]:
        statement = decode_statement(document)
        assert decode_statement(encode_statement(statement)) == statement


def test_durations_are_written_with_nine_decimals() -> None:
    statement = decode_statement(sample.query(sample.stream_join(beforeMillis=Decimal("11.002"), graceMillis="PT1H")))
    text = dump_plan(PlanFile((statement,)))
    assert '"beforeMillis": 11.002000000' in text
    assert '"afterMillis": 0.000000000' in text
    assert '"graceMillis": 3600.000000000' in text


@pytest.mark.rules("P4.3")
def test_durations_become_milliseconds() -> None:
    step = root(sample.stream_join(beforeMillis=Decimal("0.002"), afterMillis=1.5, graceMillis=None))
    assert isinstance(step, StreamStreamJoinV1)
    assert (step.before_ms, step.after_ms, step.grace_ms) == (2, 1500, None)


@pytest.mark.rules("P5.2")
def test_absent_optional_fields_have_the_defaults_of_the_format() -> None:
    join = sample.stream_join()
    del join["keyColName"], join["graceMillis"]
    del join["leftSource"]["timestampColumn"], join["leftSource"]["pseudoColumnVersion"]
    step = root(join)
    assert isinstance(step, StreamStreamJoinV1)
    assert (step.key_name, step.grace_ms) == ("ROWKEY", None)
    assert isinstance(step.left_source, StreamSourceV1)
    assert step.left_source.pseudo_column_version == 0


@pytest.mark.rules("P1.4")
def test_null_means_absent_for_optional_fields() -> None:
    command = decode_statement(sample.ddl(sample.create(orReplace=None, isSource=None, keyField=None))).ddl_command
    assert isinstance(command, CreateStreamV1)
    assert (command.or_replace, command.is_source) == (False, False)


@pytest.mark.rules("P2.1")
def test_the_legacy_key_field_is_checked_but_not_kept() -> None:
    command = decode_statement(sample.ddl(sample.create("Table", keyField="KILO"))).ddl_command
    assert isinstance(command, CreateTableV1)
    assert (
        "keyField" not in encode_statement(decode_statement(sample.ddl(sample.create(keyField="KILO"))))["ddlCommand"]
    )
    refused(sample.ddl(sample.create(keyField=1)), "$.ddlCommand.keyField")


@pytest.mark.rules("P5.3")
def test_the_join_key_has_two_spellings() -> None:
    join = sample.joined("streamTableJoinV1", sample.stream(), sample.table(), internalFormats=sample.formats())
    del join["keyColName"]
    step = root({**join, "keyName": "K"})
    assert isinstance(step, StreamTableJoinV1)
    assert step.key_name == "K"
    refused(sample.query({**join, "keyName": "K", "keyColName": "K"}), "$.queryPlan.physicalPlan.keyName")


@pytest.mark.rules("P4.2")
@pytest.mark.parametrize(
    ("options", "features"),
    [([], set()), (["UNWRAP_SINGLE_VALUES"], {"UNWRAP_SINGLES"}), (["WRAP_SINGLE_VALUES"], {"WRAP_SINGLES"})],
)
def test_options_are_features_of_the_value(options: list[str], features: set[str]) -> None:
    command = decode_statement(sample.ddl(sample.create(formats=sample.formats(options=options)))).ddl_command
    assert isinstance(command, CreateStreamV1)
    assert command.formats.value_features == {SerdeFeature(f) for f in features}
    assert command.formats.key_features == frozenset()


@pytest.mark.rules("P4.2")
def test_singles_cannot_be_both_wrapped_and_unwrapped() -> None:
    both = sample.formats(options=["UNWRAP_SINGLE_VALUES"], valueFeatures=["WRAP_SINGLES"])
    refused(sample.ddl(sample.create(formats=both)), "$.ddlCommand.formats.valueFeatures")


@pytest.mark.rules("P9.1")
def test_a_key_expression_is_a_string_or_a_list() -> None:
    for expression in ("KILO", ["KILO"]):
        step = root(sample.step("streamSelectKeyV2", "PartitionBy", source=sample.stream(), keyExpression=expression))
        assert isinstance(step, StreamSelectKeyV2)
        assert step.key_expression == (ColumnRef("KILO"),)


@pytest.mark.rules("P4.4")
@pytest.mark.parametrize(
    ("text", "window"),
    [
        (" TUMBLING ( SIZE 30 SECONDS ) ", TumblingWindow(TimeSpan(30, "SECONDS"))),
        (
            " HOPPING ( SIZE 30 SECONDS , ADVANCE BY 10 SECONDS , GRACE PERIOD 1 MINUTES ) ",
            HoppingWindow(TimeSpan(30, "SECONDS"), TimeSpan(10, "SECONDS"), grace=TimeSpan(1, "MINUTES")),
        ),
        (
            " SESSION ( 5 SECONDS , RETENTION 1 DAYS ) ",
            SessionWindow(TimeSpan(5, "SECONDS"), retention=TimeSpan(1, "DAYS")),
        ),
    ],
)
def test_a_window_may_be_text(text: str, window: Any) -> None:
    step = root(sample.windowed(text))
    assert isinstance(step, StreamWindowedAggregateV1)
    assert step.window_expression.window == window


@pytest.mark.rules("P4.4")
def test_a_window_may_be_an_object() -> None:
    step = root(sample.windowed({"windowType": "SESSION", "gap": sample.span(5), "emitStrategy": "FINAL"}))
    assert isinstance(step, StreamWindowedAggregateV1)
    assert step.window_expression.window == SessionWindow(TimeSpan(5, "SECONDS"))
    assert step.window_expression.emit is Emit.FINAL


@pytest.mark.rules("P4.6")
def test_an_alias_is_split_off_after_a_cast() -> None:
    step = root(sample.select(sample.stream(), "CAST(KILO AS STRING) AS `a AS b`"))
    assert isinstance(step, StreamSelectV1)
    assert step.select_expressions[0].alias == "a AS b"


def test_an_empty_list_of_keys_differs_from_none() -> None:
    select = sample.select(sample.stream(), "TAG AS TAG")
    empty = root({**select, "selectedKeys": [], "keyColumnNames": []})
    assert isinstance(empty, StreamSelectV1)
    assert (empty.selected_keys, empty.key_column_names) == ((), ())


SOURCE = "$.queryPlan.physicalPlan.source"


@pytest.mark.rules("P1.4")
@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"source": {**sample.stream(), "colour": 1}}, f"{SOURCE}.colour", "unknown field"),
        ({"source": {**sample.stream(), "a b": 1}}, f'{SOURCE}["a b"]', "unknown field"),
        ({"source": {**sample.stream(), "@type": "streamSourceV9"}}, f"{SOURCE}.@type", "streamSourceV9"),
        ({"source": {"properties": {}}}, f"{SOURCE}.@type", "missing"),
        ({"source": None}, SOURCE, "null"),
        ({"source": []}, SOURCE, "expected an object, got a list"),
        ({"topicName": 7}, "$.queryPlan.physicalPlan.topicName", "expected a string, got a number"),
        ({"properties": {"queryContext": "x", "y": 1}}, "$.queryPlan.physicalPlan.properties.y", "unknown field"),
        ({"formats": {"keyFormat": {"format": None}}}, "$.queryPlan.physicalPlan.formats.keyFormat.format", "null"),
        ({"source": sample.select(sample.stream(), "TAG")}, f"{SOURCE}.selectExpressions[0]", "alias"),
        ({"source": sample.select(sample.stream(), "(( AS X")}, f"{SOURCE}.selectExpressions[0]", ""),
        ({"source": {**sample.stream(), "sourceSchema": "`A NOPE"}}, f"{SOURCE}.sourceSchema", ""),
        ({"source": {**sample.stream(), "pseudoColumnVersion": 2}}, f"{SOURCE}.pseudoColumnVersion", "0 or 1"),
        ({"source": {**sample.stream(), "pseudoColumnVersion": True}}, f"{SOURCE}.pseudoColumnVersion", "a boolean"),
        (
            {"source": {**sample.table(), "pseudoColumnVersion": 0}},
            f"{SOURCE}.pseudoColumnVersion",
            "expected version 1",
        ),
        ({"source": sample.stream_join(joinType="CROSS")}, f"{SOURCE}.joinType", "CROSS"),
        ({"source": sample.stream_join(beforeMillis=None)}, f"{SOURCE}.beforeMillis", "null"),
        ({"source": sample.stream_join(beforeMillis=-1)}, f"{SOURCE}.beforeMillis", "range"),
        ({"source": sample.windowed({"windowType": "TUMBLING"})}, f"{SOURCE}.windowExpression.size", "missing"),
        (
            {"source": sample.windowed(sample.window("TUMBLING", size=sample.span(0)))},
            f"{SOURCE}.windowExpression.size",
            "zero",
        ),
        (
            {"source": sample.windowed(sample.window("TUMBLING", gap=sample.span(1)))},
            f"{SOURCE}.windowExpression.gap",
            "unknown field",
        ),
        (
            {"source": {**sample.windowed(" TUMBLING "), "aggregationFunctions": ["A"]}},
            f"{SOURCE}.aggregationFunctions[0]",
            "call",
        ),
    ],
)
def test_errors_name_the_path(change: sample.Document, path: str, message: str) -> None:
    base = sample.sink(sample.select(sample.stream(), "TAG AS TAG"))
    refused(sample.query({**base, **change}), path, message)


def test_a_near_miss_gets_a_hint() -> None:
    with pytest.raises(PlanError) as caught:
        decode_statement(sample.ddl(sample.create(topicNam="x")))
    assert caught.value.hint == "did you mean topicName?"


@pytest.mark.parametrize(
    ("info", "ok"),
    [
        ({"type": "TUMBLING", "size": 1}, True),
        ({"type": "HOPPING"}, False),
        ({"type": "TUMBLING", "size": 0}, False),
        ({"type": "SESSION", "size": None}, True),
        ({"type": "SESSION", "size": 1}, False),
    ],
)
def test_the_window_size_must_fit_the_window_type(info: sample.Document, ok: bool) -> None:
    document = sample.ddl(sample.create(windowInfo=info))
    if ok:
        decode_statement(document)
    else:
        refused(document, "$.ddlCommand.windowInfo.size")


@pytest.mark.rules("P5.1")
def test_a_foreign_key_is_a_column_or_an_expression() -> None:
    fk = {
        "joinType": "INNER",
        "formats": sample.formats(),
        "leftSource": sample.table("l"),
        "rightSource": sample.table("r"),
    }
    refused(sample.query(sample.step("fkTableTableJoinV1", "Join", **fk)), "$.queryPlan.physicalPlan", "exactly one")
    both = {"leftJoinColumnName": "A", "leftJoinExpression": "A"}
    refused(
        sample.query(sample.step("fkTableTableJoinV1", "Join", **fk, **both)), "$.queryPlan.physicalPlan", "exactly one"
    )


@pytest.mark.rules("P1.1", "P2.1")
def test_a_statement_needs_a_command_or_query_and_a_table_a_key() -> None:
    refused({"@type": "ksqlPlanV1", "statementText": ""}, "$", "both")
    refused(sample.ddl(sample.create("Table", schema="`A` STRING")), "$.ddlCommand.schema", "key")


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], "$"),
        ({}, "$.plan"),
        ({"plan": None}, "$.plan"),
        ({"plan": [], "extra": 1}, "$.extra"),
        ({"plan": [], "configs": {"a.b": 1}}, '$.configs["a.b"]'),
        ({"plan": [1]}, "$.plan[0]"),
        ({"plan": [{"@type": "ksqlPlanV2"}]}, "$.plan[0].@type"),
        ({"plan": [], 1: 2}, "$"),
    ],
)
def test_the_file_is_read_strictly(document: Any, path: str) -> None:
    with pytest.raises(PlanError) as caught:
        decode_plan(document)
    assert caught.value.path == path


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nul",
        '{"plan": [], "plan": []}',
        '{"plan": NaN}',
        '{"plan": -Infinity}',
        '{"plan": 1e99999999999999999999}',
        '{"plan": ' + "9" * 100_000 + "}",
        "[" * 1_000_000,
        '{"plan":' * 100_000,
        '{"plan": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}",
        '{"plan": [], "configs": {"a": "\\ud800"}}',
    ],
)
def test_invalid_and_hostile_json_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        load_plan(text)


@pytest.mark.parametrize(
    "number", ["1e999999", "1e-999999", "0e999999", "9" * 4000, "1." + "1" * 4000, "-0.0", "1e400", "12e2"]
)
def test_odd_numbers_are_read_or_refused(number: str) -> None:
    text = json.dumps(sample.query(sample.stream_join())).replace('"beforeMillis": 11', f'"beforeMillis": {number}')
    document = read_json(text)
    error_path = None
    try:
        decode_statement(document)
    except PlanError as error:
        error_path = error.path
    assert error_path in (None, "$.queryPlan.physicalPlan.beforeMillis")


def chain(length: int) -> sample.Document:
    source = sample.stream()
    for _ in range(length):
        source = sample.step("streamFilterV1", "WhereFilter", source=source, filterExpression="true")
    return sample.query(source)


def test_long_chains_of_steps_are_read_and_longer_ones_refused() -> None:
    # Statement, query and the formats of the source take six levels.
    longest = MAX_DEPTH - 6
    assert encode_statement(decode_statement(chain(longest))) == chain(longest)
    for length in (longest + 1, 5_000):
        with pytest.raises(PlanError, match=f"nested deeper than {MAX_DEPTH} levels"):
            decode_statement(chain(length))


def test_deep_expressions_are_refused() -> None:
    for text in ("NOT " * 20_000 + "true", "ARRAY[" * 5_000 + "1" + "]" * 5_000, "(" * 9_000):
        refused(
            sample.query(sample.select(sample.stream(), text + " AS A")),
            "$.queryPlan.physicalPlan.selectExpressions[0]",
        )
    deep_type = "ARRAY<" * 900 + "INT" + ">" * 900
    refused(
        sample.ddl({"@type": "registerTypeV1", "type": deep_type, "typeName": "T"}), "$.ddlCommand.type", "too large"
    )
    refused(
        sample.query({**sample.stream(), "sourceSchema": f"`A` {deep_type}"}),
        "$.queryPlan.physicalPlan.sourceSchema",
        "too large",
    )


def test_python_floats_are_read_as_their_shortest_decimal() -> None:
    step = root(sample.stream_join(beforeMillis=0.1))
    assert isinstance(step, StreamStreamJoinV1)
    assert step.before_ms == 100
    for value in (float("nan"), float("inf"), 1e300):
        refused(sample.query(sample.stream_join(beforeMillis=value)), "$.queryPlan.physicalPlan.beforeMillis")
