"""Tests that a stage with carried columns gives the result of a stage whose SQL has all columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Fault
from kestrel_sql.spark.io import blobs
from kestrel_sql.spark.io.arrow_passes import Passes
from kestrel_sql.spark.io.topics import ENVELOPE_FIELDS
from kestrel_sql.spark.pipeline import carried_columns
from kestrel_sql.spark.pipeline import pipeline as pipelines
from kestrel_sql.spark.pipeline.carried_columns import pack_carried, unpack_carried
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.stages.stage import AT, CARRIED, ENVELOPE, LOG_ONLY, LOGGED, Operation, Stage
from kestrel_sql.spark.state.packing import page_columns
from kestrel_sql.spark.types import schema_text
from tests.engine.spark.pipeline.stage_samples import ROWS, built, columns, rows, selected

FILTER = "CREATE STREAM Q AS SELECT K, A + 1 AS A, B FROM S WHERE A > 0;"
FAULTS = "CREATE STREAM Q AS SELECT K, 6 / A AS N, C->X % A AS M FROM S;"
CHAIN = "CREATE TABLE Q AS SELECT K, SUM(10 / A) AS N FROM S WHERE A > -5 GROUP BY K HAVING SUM(10 / A) > 0;"
STAMPED = "CREATE STREAM Q WITH (TIMESTAMP='N') AS SELECT K, C->X * 2 AS N FROM S;"
PAGED = "CREATE TABLE Q AS SELECT K, COUNT(*) AS N FROM D GROUP BY K;"
VARIABLES = (
    "CREATE STREAM Q AS SELECT K, TRANSFORM(B, `log` => UCASE(`log`)) AS L, FILTER(B, `q` => LEN(`q`) > 1) AS M FROM S"
    " WHERE A > 0;"
)
JOINED = "CREATE STREAM Q AS SELECT S.K AS K, A + 1 AS A, N FROM S JOIN T ON S.K = T.K WHERE LEN(N) > 0;"

NAMES = ("ordinal", "ts", "log")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session whose Arrow batches have other bounds than those of the passes."""
    session = open_test_session()
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = session.conf.get(name)
    session.conf.set(name, "37")
    yield session
    session.conf.set(name, str(before))


def past(spark: SparkSession, pipeline: Pipeline, at: int, given: pa.RecordBatch, pages: int) -> list[dict[str, Any]]:
    """The result of a stage whose SQL gets only the columns that it reads."""
    stage = pipeline.group.stages[at]
    carried = stage.carried()
    part = pipelines._Part(frozenset(), stage.sql(pipelines._SOURCE, carried), carried)
    before = pipeline._columns(at)
    behind = {**before, **{f"r{relation}": kind for relation, kind in stage.types.items()}}
    paged = page_columns(pipeline.level(at + 1), pages) if at + 1 < pipeline.depth else []
    if paged:
        behind |= {"page": "INT", "old_page": "INT"}

    def ordered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from (batch.select(list(behind)) for batch in batches)

    frame: DataFrame = spark.createDataFrame(pa.Table.from_batches([given])).coalesce(1)
    unloaded = (
        pipelines._computed(spark, Passes(frame), before, part, paged).through(ordered).frame(schema_text(behind))
    )
    found: list[dict[str, Any]] = unloaded.toArrow().to_pylist()
    return found


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "pages"),
    [*((text, 1) for text in (FILTER, FAULTS, STAMPED, VARIABLES)), *product((CHAIN, PAGED, JOINED), (1, 8))],
)
def test_carried_columns_give_the_result_of_columns_in_sql(spark: SparkSession, text: str, pages: int) -> None:
    pipeline = built(text)
    for at in range(pipeline.depth):
        schema = columns(pipeline, at)
        given = rows(schema, [int(column[1:]) for column in schema.names if column[1:].isdigit()])
        expected, found = selected(spark, pipeline, at, given, pages), past(spark, pipeline, at, given, pages)
        assert 0 < len(expected) < ROWS
        # Text tells -0.0 from 0.0 and knows NaN.
        assert repr(found) == repr(expected)


def stage(**operation: Any) -> Stage:
    made = Stage()
    made.add(0, Operation(fields=(("v", s.column("r0", "v")),), **operation), "STRUCT<v: INT>")
    return made


def test_a_column_that_an_operation_reads_or_replaces_is_not_carried() -> None:
    everything = set(ENVELOPE) - {"rel"}
    assert stage().carried() == everything
    assert stage(keep=s.is_null(s.column("ws"))).carried() == everything - {"ws"}
    assert stage(timestamp=s.integer(1)).carried() == everything - {"ts"}
    assert stage(headers=s.NULL, record=s.column("topic")).carried() == everything - {"headers", "topic"}
    assert stage(faults=(Fault(s.is_null(s.column("off")), "gone"),)).carried() == everything - {"off"}


def test_nothing_is_carried_where_a_row_becomes_several() -> None:
    assert stage(rows=s.integer(3)).carried() == frozenset()


def test_the_sql_has_only_the_columns_that_it_reads() -> None:
    text = stage(timestamp=s.integer(1)).sql("source_view", stage(timestamp=s.integer(1)).carried())
    assert "`ordinal`" not in text
    assert "log" not in text.replace(LOGGED, "")
    assert text.endswith(f"WHERE rel >= 0 OR `{LOGGED}` OR `{CARRIED}` IS NOT NULL")


def batch(ordinals: range) -> pa.RecordBatch:
    schema = pa.schema([*ENVELOPE_FIELDS, ("r0", pa.int32())])
    given = [{"rel": 0, "ordinal": [ordinal], "ts": -ordinal, "log": [], "r0": ordinal} for ordinal in ordinals]
    return pa.RecordBatch.from_pylist(given, schema=schema)


@pytest.mark.parametrize("joined", [1, 4, 1 << 14])
def test_rows_find_their_carried_columns_however_they_are_cut_and_dropped(
    monkeypatch: pytest.MonkeyPatch, joined: int
) -> None:
    monkeypatch.setattr(carried_columns, "_MAX_ROWS", 9)
    monkeypatch.setattr(blobs, "_LARGER_ROWS", joined)
    loaded = pa.Table.from_batches(
        pack_carried(NAMES)(iter([batch(range(5)), batch(range(0)), batch(range(5, 6)), batch(range(6, 20))]))
    )
    rows_ = loaded.to_pylist()
    assert [row["r0"] for row in rows_ if row[CARRIED] is not None] == [0, 5, 6, 15]
    # Spark drops rows, but not the first of a blob; those it has to drop stay for it.
    kept = [
        {**row, "rel": 0 if row["r0"] % 3 else LOG_ONLY} for row in rows_ if row["r0"] % 3 or row[CARRIED] is not None
    ]
    for size in (1, 2, 3, 7, 50):
        pieces = [
            pa.RecordBatch.from_pylist(kept[at : at + size], schema=loaded.schema) for at in range(0, len(kept), size)
        ]
        found = [row for done in unpack_carried(NAMES)(iter(pieces)) for row in done.to_pylist()]
        assert [(row["r0"], row["ordinal"], row["ts"]) for row in found] == [
            (at, [at], -at) for at in range(20) if at % 3
        ]
        assert not {CARRIED, AT, LOGGED} & set(found[0])
