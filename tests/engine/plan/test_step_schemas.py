"""The columns that each step gives its rows."""

from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.codec.plan_file import decode_statement
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.expressions.types import Types
from tests.engine.plan import plan_samples as sample

SYSTEM = "`ROWTIME` BIGINT, `ROWPARTITION` INTEGER, `ROWOFFSET` BIGINT"
HERD = f"`TAG` STRING KEY, `KILO` DOUBLE, `FED` BIGINT, {SYSTEM}, `TAG` STRING"
HEADERS = "ARRAY<STRUCT<`KEY` STRING, `VALUE` BYTES>>"
BARN = f"`TAG` STRING KEY, `SEEN` STRING, `H` {HEADERS}, {SYSTEM}, `TAG` STRING"


def columns(root: sample.Document) -> str:
    plan = decode_statement(sample.query(root)).query_plan
    assert plan is not None
    return ", ".join(map(str, plan.physical_plan.result_schema(Types(FUNCTIONS, Config()).of).columns))


def rekeyed(tag: str, key: Any) -> sample.Document:
    return sample.step(tag, "PartitionBy", source=sample.stream(), keyExpression=key)


@pytest.mark.rules("P6.1.1")
def test_a_source_has_its_columns_the_system_columns_and_a_copy_of_the_key() -> None:
    assert columns(sample.stream()) == HERD
    assert columns(sample.table()) == BARN


@pytest.mark.rules("P6.1.1")
def test_a_windowed_source_has_the_bounds_of_its_windows() -> None:
    source = {**sample.stream(), "@type": "windowedStreamSourceV1", "windowInfo": {"type": "SESSION"}}
    assert columns(source) == f"{HERD}, `WINDOWSTART` BIGINT, `WINDOWEND` BIGINT"


@pytest.mark.rules("P6.1.2")
def test_an_old_table_source_has_the_time_only() -> None:
    old = {**sample.stream(), "@type": "tableSourceV1", "pseudoColumnVersion": 0}
    assert columns(old) == "`TAG` STRING KEY, `KILO` DOUBLE, `FED` BIGINT, `ROWTIME` BIGINT, `TAG` STRING"


@pytest.mark.rules("P6.2.1")
def test_a_select_has_its_items_and_renames_the_key() -> None:
    renamed = sample.select(sample.stream(), "(KILO + 1) AS HEAVY", "TAG AS T")
    renamed["keyColumnNames"] = ["MARK"]
    assert columns(renamed) == "`MARK` STRING KEY, `HEAVY` DOUBLE, `T` STRING"
    assert columns({**renamed, "selectedKeys": []}) == "`HEAVY` DOUBLE, `T` STRING"


@pytest.mark.rules("P6.2.2")
def test_table_functions_append_their_results() -> None:
    calls = ["EXPLODE(ARRAY[1, 2])", "EXPLODE(ARRAY['a'])"]
    exploded = sample.step("streamFlatMapV1", "FlatMap", source=sample.stream(), tableFunctions=calls)
    assert columns(exploded) == f"{HERD}, `KSQL_SYNTH_0` INTEGER, `KSQL_SYNTH_1` STRING"


@pytest.mark.rules("P6.3.1")
def test_the_first_kind_of_new_key_is_called_rowkey() -> None:
    assert columns(rekeyed("streamSelectKeyV1", "KILO")) == HERD.replace("`TAG` STRING KEY", "`ROWKEY` DOUBLE KEY")


@pytest.mark.rules("P6.3.2")
def test_the_second_kind_keeps_the_names_of_columns_and_appends_the_values_of_expressions() -> None:
    keys = HERD.replace("`TAG` STRING KEY", "`KILO` DOUBLE KEY, `KSQL_COL_0` BIGINT KEY")
    assert columns(rekeyed("streamSelectKeyV2", ["KILO", "(FED + 1)"])) == f"{keys}, `KSQL_COL_0` BIGINT"


@pytest.mark.rules("P6.4.1", "P6.4.2")
def test_groups_are_columns_or_one_text() -> None:
    source = sample.select(sample.stream(), "TAG AS TAG", "FED AS FED")
    assert columns(sample.grouped("streamGroupByV2", source)) == (
        "`TAG` STRING KEY, `KSQL_COL_0` BIGINT KEY, `TAG` STRING, `FED` BIGINT"
    )
    assert columns(sample.grouped("streamGroupByV1", source)) == "`KSQL_COL_0` STRING KEY, `TAG` STRING, `FED` BIGINT"


@pytest.mark.rules("P6.5.1")
def test_an_aggregate_has_the_columns_of_its_groups_its_results_and_its_window() -> None:
    window = sample.windowed(sample.window("TUMBLING", size=sample.span(1)))
    results = "`TAG` STRING KEY, `TAG` STRING, `KSQL_AGG_VARIABLE_0` BIGINT"
    assert columns(window) == f"{results}, `WINDOWSTART` BIGINT, `WINDOWEND` BIGINT"


@pytest.mark.rules("P6.6.1")
def test_a_join_has_the_columns_of_both_sides_and_a_key_that_neither_has() -> None:
    left, right = sample.select(sample.stream(), "KILO AS L"), sample.select(sample.stream(), "FED AS R")
    joined = sample.joined("streamStreamJoinV1", left, right)
    joined |= {"leftInternalFormats": sample.formats(), "rightInternalFormats": sample.formats()}
    joined |= {"beforeMillis": 1, "afterMillis": 1, "keyColName": "K"}
    assert columns(joined) == "`K` STRING KEY, `L` DOUBLE, `R` BIGINT, `K` STRING"
    assert columns({**joined, "joinType": "RIGHT"}) == "`K` STRING KEY, `R` BIGINT, `L` DOUBLE, `K` STRING"
    assert columns({**joined, "keyColName": "L"}) == "`L` STRING KEY, `L` DOUBLE, `R` BIGINT"


@pytest.mark.rules("P6.6.2")
def test_a_join_by_foreign_key_has_the_key_of_the_left_table() -> None:
    tables = {"leftSource": sample.table("l"), "rightSource": sample.table("r")}
    joined = sample.step(
        "fkTableTableJoinV1", "Join", joinType="INNER", formats=sample.formats(), leftJoinColumnName="SEEN", **tables
    )
    assert columns(joined) == f"{BARN}, {BARN.removeprefix('`TAG` STRING KEY, ')}"
