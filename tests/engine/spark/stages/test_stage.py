from __future__ import annotations

import sqlglot

from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Fault
from kestrel_sql.spark.stages.stage import POSITION, Operation, Stage

TYPE = "STRUCT<v: INT>"


def written(stage: Stage) -> str:
    text = stage.sql("source_view")
    assert sqlglot.parse_one(text, dialect="spark") is not None
    return text


def test_a_stage_without_operations_only_drops_rows_without_relation() -> None:
    stage = Stage()
    stage.relation(3)
    assert written(stage) == "SELECT * FROM (SELECT * FROM source_view) WHERE rel >= 0 OR size(log) > 0"


def test_each_relation_is_guarded_by_its_number() -> None:
    stage = Stage()
    for relation in (0, 7):
        stage.add(relation, Operation(fields=(("v", s.column(f"r{relation}", "v")),)), TYPE)
    text = written(stage)
    assert "`when`(`=`(`rel`, 0), `named_struct`('v', `r0`.`v`)) AS `r0`" in text
    assert "`when`(`=`(`rel`, 7), `named_struct`('v', `r7`.`v`)) AS `r7`" in text


def test_a_relation_without_an_operation_in_a_layer_passes_through() -> None:
    stage = Stage()
    stage.relation(1)
    stage.add(2, Operation(fields=(("v", s.column("r2", "v")),)), TYPE)
    assert "`r1` AS `r1`" in written(stage)


def test_a_dropped_row_stays_for_its_log_entries() -> None:
    stage = Stage()
    fault = Fault(s.is_null(s.column("r0", "v")), "it's gone")
    stage.add(0, Operation(fields=(), keep=s.FALSE, faults=(fault,), logger="processing.Q"), TYPE)
    text = written(stage)
    assert ", (-1), `rel`) AS `rel`" in text
    assert "'message', 'it\\'s gone'" in text


def test_exploding_appends_the_position_to_the_ordinal() -> None:
    stage = Stage()
    stage.add(4, Operation(fields=(("v", POSITION),), rows=s.integer(2)), TYPE)
    text = written(stage)
    assert "LATERAL VIEW explode(" in text
    assert "`concat`(`ordinal`, `array`(`BIGINT`(`_position`)))" in text
