"""Stages of real queries, and rows for them, for tests."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.session.session import Session
from kestrel_sql.spark.io.source_reader import struct_type
from kestrel_sql.spark.io.topics import ENVELOPE_FIELDS
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.stages.stage import LOG_ONLY, struct_column
from kestrel_sql.spark.state.packing import page_columns

SOURCES = """
CREATE STREAM S (K STRING KEY, A INT, B ARRAY<STRING>, C STRUCT<X BIGINT, Y MAP<STRING, INT>>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM R (K INT KEY, A INT) WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON');
CREATE STREAM D (K DOUBLE KEY, A INT) WITH (KAFKA_TOPIC='d', VALUE_FORMAT='JSON');
CREATE TABLE T (K STRING PRIMARY KEY, N STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE U (K STRING PRIMARY KEY, N STRING) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
"""
ROWS, SEED = 400, 3


@cache
def built(text: str) -> Pipeline:
    session = Session()
    for parsed in session.parse(SOURCES + text):
        session.execute(parsed)
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan, settings=query.config, serde=session.serde())])


def columns(pipeline: Pipeline, at: int) -> pa.Schema:
    """The handles of the relations that enter a stage."""
    if at > 0:
        return pipeline.level(at).after()
    return pa.schema([*ENVELOPE_FIELDS, *((struct_column(x.relation), struct_type(x)) for x in pipeline.group.sources)])


def value(kind: pa.DataType, random_: random.Random) -> Any:
    """A random value of a type, often None."""
    if random_.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value(field.type, random_) for field in kind}
    if pa.types.is_map(kind):
        return [(f"key {n}", value(kind.item_type, random_)) for n in range(random_.randrange(3))]
    if pa.types.is_list(kind):
        return [value(kind.value_type, random_) for _ in range(random_.randrange(3))]
    if pa.types.is_string(kind):
        return random_.choice(["", "a", "bär", "something long"])
    if pa.types.is_floating(kind):
        return random_.choice([-0.0, 0.0, 1.5, 2.0, -7.25, math.nan, math.inf, -math.inf])
    most = (1 << 63 if kind == pa.int64() else 1 << 31) - 1
    return random_.choice([most, -most - 1]) if random_.random() < 0.05 else random_.randrange(-9, 9)


def rows(schema: pa.Schema, relations: Sequence[int]) -> pa.RecordBatch:
    """Random rows of these relations, and rows without a relation, with and without log entries."""
    random_ = random.Random(SEED)
    found = []
    for ordinal in range(ROWS):
        relation = random_.choice([*relations, LOG_ONLY])
        log = [{"kind": 0, "logger": "l", "message": "m", "cause": [], "record": None}] * random_.randrange(2)
        row = {
            "rel": relation,
            "q": 0,
            "ordinal": [ordinal],
            "ts": ordinal,
            "headers": [],
            "log": log,
            "task": ordinal % 3,
        }
        if relation != LOG_ONLY:
            column = struct_column(relation)
            kind = schema.field(column).type
            row[column] = {field.name: value(field.type, random_) for field in kind}
        found.append(row)
    return pa.RecordBatch.from_pylist(found, schema=schema)


def selected(
    spark: SparkSession, pipeline: Pipeline, at: int, given: pa.RecordBatch, pages: int
) -> list[dict[str, Any]]:
    """The result of a stage as SQL."""
    frame: DataFrame = spark.createDataFrame(pa.Table.from_batches([given]))
    frame.createOrReplaceTempView("kestrel_input")
    paged = page_columns(pipeline.level(at + 1), pages) if at + 1 < pipeline.depth else []
    text = pipeline.group.stages[at].sql("kestrel_input")
    made = spark.sql(f"SELECT {', '.join(['*', *paged])} FROM ({text})")
    # Spark says of some fields that they cannot be NULL, and gives them so below a NULL: Arrow does not take that.
    nullable = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in made.schema)
    found: list[dict[str, Any]] = made.mapInArrow(lambda batches: batches, nullable).toArrow().to_pylist()
    return found
