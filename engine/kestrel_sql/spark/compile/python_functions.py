"""Registers Python function bodies as Arrow functions of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from kestrel_sql.expressions.user_calls import Tracing
from kestrel_sql.functions.declaration import Nulls, Scalar
from kestrel_sql.spark.compile.context import PythonCall, PythonCalls
from kestrel_sql.spark.types import to_arrow, to_spark
from kestrel_sql.spark.values import from_arrow_value, to_arrow_value
from kestrel_sql.types.sql_types import SqlType


def register(spark: SparkSession, calls: PythonCalls) -> None:
    """Register every Python function of a pipeline with Spark under its name."""
    for name, call in calls.calls.items():
        function, result = call.function, to_spark(call.types.returns)
        if isinstance(function, Scalar) and function.vector is not None:
            spark.udf.register(name, arrow_udf(_vector_runner(call, function.vector), result))
        else:
            spark.udf.register(name, arrow_udf(_runner(call), f"STRUCT<v: {result}, e: STRING>"))


def _runner(call: PythonCall) -> Callable[..., pa.Array]:
    function, types = call.function, call.types
    body = partial(function.body, types) if function.with_types else function.body
    propagate = isinstance(function, Scalar) and function.nulls is Nulls.PROPAGATE
    value_type, encode = to_arrow(types.returns), to_arrow_value(types.returns)
    literals = dict(call.literals)
    describe = Tracing(function.name) if call.is_of_user else _message

    def run(*given: pa.Array) -> pa.Array:
        size = len(given[0])
        active = given[0].to_pylist() if call.guarded else repeat(True, size)
        columns = given[1:] if call.guarded else given
        some_null = propagate and any(column.null_count for column in columns)
        rows = _rows(columns, types.arguments, literals, size)
        values: list[Any] = [None] * size
        errors: dict[int, str] = {}
        for at, (on, row) in enumerate(zip(active, rows, strict=True)):
            if not on or (some_null and None in row):
                continue
            try:
                values[at] = body(*row)
            except Exception as error:  # noqa: BLE001 - any exception is the error of this row
                errors[at] = describe(error)
        if encode is not None:
            values = [None if value is None else encode(value) for value in values]
        result = _arrow(values, value_type, errors)
        messages = (
            pa.array([errors.get(at) for at in range(size)], pa.string()) if errors else pa.nulls(size, pa.string())
        )
        return pa.StructArray.from_arrays([result, messages], ["v", "e"])

    return run


def _message(error: Exception) -> str:
    return str(error) or type(error).__name__


def _vector_runner(call: PythonCall, vector: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """A function over whole columns. It cannot fail, so it also runs for inactive rows."""
    literals = dict(call.literals)
    propagate = isinstance(call.function, Scalar) and call.function.nulls is Nulls.PROPAGATE

    def run(*given: pa.Array) -> pa.Array:
        read = given[1:] if call.guarded else given
        columns = iter(read)
        result = vector(*(literals[at] if at in literals else next(columns) for at in range(len(call.types.arguments))))
        # If all arguments are constants, so is the result.
        full = result if isinstance(result, pa.Array) else pa.repeat(result, len(given[0]))
        for column in read:
            if propagate and column.null_count:
                full = pc.if_else(pc.is_valid(column), full, pa.scalar(None, full.type))
        return full

    return run


def _rows(
    columns: Sequence[pa.Array], types: Sequence[SqlType | None], literals: Mapping[int, Any], size: int
) -> Iterable[tuple[Any, ...]]:
    """The arguments of each row: columns and literals, in the order of the parameters."""
    if not types:
        return repeat((), size)
    left = iter(columns)
    given = (
        repeat(literals[at], size) if at in literals else _values(next(left), sql_type)
        for at, sql_type in enumerate(types)
    )
    return zip(*given, strict=True)


def _arrow(values: list[Any], value_type: pa.DataType, errors: dict[int, str]) -> pa.Array:
    """Make a column of values; a value of another type becomes the error of its row."""
    try:
        return pa.array(values, value_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        for at, value in enumerate(values):
            try:
                pa.array([value], value_type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                values[at] = None
                errors[at] = f"the function returned a value that is not of type {value_type}: {error}"
        return pa.array(values, value_type)


def _values(column: pa.Array, sql_type: SqlType | None) -> list[Any]:
    values = column.to_pylist()
    convert = from_arrow_value(sql_type)
    return values if convert is None else [convert(v) for v in values]
