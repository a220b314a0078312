"""Tests that projections on Arrow give the results of their SQL."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.io.arrow_passes import Passes
from kestrel_sql.spark.io.topics import ENVELOPE_FIELDS
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.pipeline.projection_pass import arrow_relations, project_batches
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.stages.stage import Operation, Stage
from kestrel_sql.spark.state.packing import can_page, page_batches
from tests.engine.spark.pipeline.stage_samples import ROWS, built, columns, rows, selected

COUNT = (
    "CREATE TABLE Q AS SELECT K, COUNT(*) AS N, LATEST_BY_OFFSET(C) AS C FROM S WINDOW TUMBLING (SIZE 1 SECOND) GROUP"
    " BY K;"
)
JOIN = "CREATE STREAM Q AS SELECT S.K AS K, B, C, N FROM S LEFT JOIN T ON S.K = T.K;"
TABLES = "CREATE TABLE Q AS SELECT T.K AS K, T.N AS N, U.N AS M FROM T LEFT JOIN U ON T.K = U.K;"
GROUPED = "CREATE TABLE Q WITH (KEY_FORMAT='JSON') AS SELECT K, A, COUNT(*) AS N FROM S GROUP BY K, A;"
REGROUPED = "CREATE TABLE Q AS SELECT N, COUNT(*) AS M FROM T GROUP BY N;"
REKEYED = "CREATE STREAM Q WITH (KEY_FORMAT='JSON') AS SELECT B, S.K AS L, N FROM S JOIN T ON S.K = T.K PARTITION BY B;"
FILTER = (
    "CREATE STREAM Q AS SELECT K, A * 2 AS M, C->X + A AS P, C->X - 2147483648 AS X, A - 1 AS L, 1 AS N, 'x' AS T, A > 3 AS G,"
    " NOT (A = C->X) AS E, A IS NULL AS Z, CAST(A AS BIGINT) AS W FROM S WHERE A >= -7 AND (C->X < 5 OR K <> 'a' OR K >="
    " 'b') AND NOT (A = 2) AND NOT (A IN (4, -6));"
)
DOUBLES = (
    "CREATE STREAM Q AS SELECT K, K * 2 AS M, A + K AS P, -K AS N, K - 1.5 AS O, K > 1.5E0 AS G, K = A AS E, K = K AS S,"
    " -A AS B, CAST(A AS DOUBLE) AS W FROM D WHERE K >= A OR NOT (K <> K) OR K < 2E0 OR K IS NULL;"
)
COUNTED = "CREATE TABLE Q AS SELECT K, COUNT(*) AS N FROM S WHERE A > 1 GROUP BY K HAVING COUNT(*) > 2;"
COPY = "CREATE STREAM Q AS SELECT K, C, A FROM S;"


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return open_test_session()


def moved(pipeline: Pipeline, at: int, given: pa.RecordBatch, pages: int) -> list[dict[str, Any]]:
    """The result of a stage on Arrow."""
    batches: Iterator[pa.RecordBatch] = iter([given.slice(0, 7), given.slice(7)])
    stage = pipeline.group.stages[at]
    # A worker of Spark has a copy.
    batches = pickle.loads(cloudpickle.dumps(project_batches(stage, arrow_relations(stage, given.schema))))(batches)
    if at + 1 < pipeline.depth and pages > 1:
        batches = page_batches(pipeline.level(at + 1), pages)(batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "pages"),
    [
        *((text, 1) for text in (COPY, FILTER, DOUBLES)),
        *product((COUNT, JOIN, TABLES, GROUPED, REGROUPED, REKEYED, COUNTED), (1, 8)),
    ],
)
def test_a_projection_on_arrow_gives_the_result_of_its_sql(spark: SparkSession, text: str, pages: int) -> None:
    pipeline = built(text)
    for at, stage in enumerate(pipeline.group.stages):
        assert arrow_relations(stage, columns(pipeline, at)) == {
            relation for relation, operations in stage.operations.items() if operations
        }
        schema = columns(pipeline, at)
        given = rows(schema, [int(column[1:]) for column in schema.names if column[1:].isdigit()])
        expected, found = selected(spark, pipeline, at, given, pages), moved(pipeline, at, given, pages)
        assert 0 < len(expected) < ROWS
        # Text tells -0.0 from 0.0 and knows NaN.
        assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT K, A / 2 AS A FROM S",
        "SELECT * FROM S WHERE A > 0.5",
        "SELECT * FROM D WHERE K / 2 > 1",
        "SELECT K, EXPLODE(B) AS B FROM S",
        "SELECT K, 1.5 AS A FROM S",
        "SELECT K, UCASE(K) AS A FROM S",
    ],
)
def test_a_relation_with_computed_columns_is_left_to_spark(select: str) -> None:
    pipeline = built(f"CREATE STREAM Q AS {select};")
    assert not arrow_relations(pipeline.group.stages[0], columns(pipeline, 0))


def test_a_chain_of_conditions_may_be_longer_than_the_recursion_limit() -> None:
    stage, column = Stage(), s.column("r0", "v")
    keep = s.all_of(*(s.is_not_null(s.column("r0", "v", "A")) for _ in range(3000)))
    stage.add(0, Operation(fields=(("v", column),), keep=keep), "STRUCT<v: STRUCT<A: INT>>")
    schema = pa.schema([*ENVELOPE_FIELDS, ("r0", pa.struct([("v", pa.struct([("A", pa.int32())]))]))])
    assert arrow_relations(stage, schema) == {0}
    given = [
        {"rel": 0, "ordinal": [ordinal], "log": [], "r0": {"v": {"A": value}}}
        for ordinal, value in enumerate([1, None, 3])
    ]
    (batch,) = project_batches(stage, {0})(iter([pa.RecordBatch.from_pylist(given, schema=schema)]))
    assert batch.column("ordinal").to_pylist() == [[0], [2]]


def test_pages_of_hashable_keys_are_computed_on_arrow() -> None:
    known, unknown = (
        built(f"CREATE TABLE Q AS SELECT K, COUNT(*) AS N FROM {source} GROUP BY K;").level(1) for source in ("R", "D")
    )
    assert can_page(known, 8)
    assert not can_page(unknown, 8)
    assert can_page(unknown, 1)


@pytest.mark.spark
def test_consecutive_passes_are_one_map_in_arrow(spark: SparkSession) -> None:
    def plus_one(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([{"id": row["id"] + 1} for row in batch.to_pylist()], schema=batch.schema)

    frame = Passes(spark.range(3).toDF("id")).through(plus_one).through(plus_one).frame("id BIGINT")
    assert sorted(row["id"] for row in frame.collect()) == [2, 3, 4]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert plan.count("MapInArrow") == 1
