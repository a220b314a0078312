"""Evaluates expressions without columns in one Spark projection, for those that Python cannot evaluate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from kestrel_sql.errors import StatementError
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.spark.compile import python_functions as pycalls
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_expression
from kestrel_sql.spark.values import from_arrow_value
from kestrel_sql.sql.format.statements import format_expression


def evaluate_constants(spark: SparkSession, bounds: Sequence[Bound], settings: Mapping[str, str]) -> list[object]:
    """Return the value of each expression, as the Python value of its type (`kestrel_sql.types.sql_types`).

    Raises:
        StatementError: an expression fails, or Spark cannot run it.
    """
    python = PythonCalls()
    preserve = settings.get("ksql.cast.strings.preserve.nulls", "true").lower() == "true"
    context = Context({}, python, nested=False, preserve_nulls=preserve, settings=settings)
    columns = []
    for number, bound in enumerate(bounds):
        checked = compile_expression(bound, context)
        fails = s.FALSE if checked.fails is None else checked.fails
        columns += [f"{s.to_text(s.cast(checked.value, bound.type))} AS v{number}", f"{s.to_text(fails)} AS f{number}"]
    pycalls.register(spark, python)
    row = spark.sql(f"SELECT {', '.join(columns)} FROM range(1)").toArrow()
    values: list[object] = []
    for number, bound in enumerate(bounds):
        if row.column(f"f{number}")[0].as_py():
            raise StatementError(f"Failed to evaluate: {format_expression(bound.node)}", span=bound.node.span)
        value = row.column(f"v{number}")[0].as_py()
        convert = from_arrow_value(bound.type)
        values.append(value if convert is None else convert(value))
    return values
