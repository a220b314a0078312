"""Python function bodies as Arrow functions of Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from engine.functions.declaration import CallTypes, Nulls, Scalar
from engine.spark.context import PythonCall, PythonCalls
from engine.spark.types import to_arrow, to_spark
from engine.spark.values import from_arrow_value, to_arrow_value
from engine.types.sql_types import SqlType

Evaluate = Callable[[tuple[Any, ...]], dict[str, Any]]


def register(spark: SparkSession, calls: PythonCalls) -> None:
    """Make every Python function of a pipeline known to Spark under its name."""
    for name, call in calls.calls.items():
        result = f"STRUCT<v: {to_spark(call.types.returns)}, e: STRING>"
        spark.udf.register(name, arrow_udf(_runner(call), result))


def _runner(call: PythonCall) -> Callable[..., pa.Array]:
    function, types = call.function, call.types
    out_type = pa.struct([pa.field("v", to_arrow(types.returns)), pa.field("e", pa.string())])
    evaluate = _evaluator(function.body, types, isinstance(function, Scalar) and function.nulls is Nulls.PROPAGATE, function.with_types)

    encode = to_arrow_value(types.returns)

    def run(active: pa.Array, *columns: pa.Array) -> pa.Array:
        decoded = [_values(column, sql_type) for column, sql_type in zip(columns, types.arguments, strict=True)]
        rows = zip(*decoded, strict=True) if decoded else ((),) * len(active)
        outcomes = [evaluate(row) if on else None for on, row in zip(active.to_pylist(), rows, strict=True)]
        if encode is not None:
            outcomes = [None if o is None else {"v": encode(o["v"]), "e": o["e"]} for o in outcomes]
        return pa.array(outcomes, type=out_type)

    return run


def _evaluator(body: Callable[..., Any], types: CallTypes, propagate: bool, with_types: bool) -> Evaluate:
    first = (types,) if with_types else ()

    def evaluate(row: tuple[Any, ...]) -> dict[str, Any]:
        if propagate and None in row:
            return {"v": None, "e": None}
        try:
            return {"v": body(*first, *row), "e": None}
        except Exception as error:  # noqa: BLE001 - whatever a function throws is the error of this row
            return {"v": None, "e": str(error) or type(error).__name__}

    return evaluate


def _values(column: pa.Array, sql_type: SqlType | None) -> list[Any]:
    values = column.to_pylist()
    convert = from_arrow_value(sql_type)
    return values if convert is None else [convert(v) for v in values]
