"""Runs generated expressions in Spark, with and without code generation, on Arrow, in the evaluator, and as constants.

One comparison is one expression over one row on one pair of paths. Hundreds of expressions are one Spark job.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError
from kestrel_sql.expressions.columns import Columns, Failures
from kestrel_sql.expressions.compiler import Options
from kestrel_sql.expressions.compiler import compile_expression as compile_columns
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.bind.nodes import Bound, columns_of
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_expression
from kestrel_sql.spark.compile.python_functions import register
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.pipeline.arrow_expressions import NotOnArrowError, as_array
from kestrel_sql.spark.pipeline.projection_pass import value_of
from kestrel_sql.spark.types import to_arrow
from kestrel_sql.spark.values import from_arrow_value, to_arrow_value
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from tests.fuzz.generator import COLUMNS, Generator
from tests.fuzz.values import constant, value

Row = Mapping[str, Any]
Outcome = tuple[str, Any]
"""`("value", it)`, `("fails", None)`, or `("refused", message)` where a path does not run the expression at all."""

FAILS: Outcome = ("fails", None)
CODEGEN = {
    "without code generation": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    "with code generation": {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"},
}
VIEW = "fuzzed"
CONSTANTS = 4
"""Every fourth expression is also run as constants: Spark plans it for the sake of one row."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Paths that do not agree on an expression over a row."""

    bound: Bound
    row: Row
    nested: bool
    outcomes: Mapping[str, Outcome]

    def __str__(self) -> str:
        used = {name: self.row[name] for name, _ in columns_of(self.bound)}
        shown = "\n".join(f"    {path}: {outcome}" for path, outcome in self.outcomes.items())
        return f"{format_expression(self.bound.node)}\n    over {used!r}, nested={self.nested}\n{shown}"


def some_rows(rng: random.Random, count: int) -> list[Row]:
    """Return rows of adversarial values for all columns; the first has NULLs only."""
    rows = [{name: value(rng, of) for name, of in COLUMNS.items()} for _ in range(count - 1)]
    return [dict.fromkeys(COLUMNS), *rows]


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Return the rows as a table of all columns."""
    arrays = {}
    for name, of in COLUMNS.items():
        convert = to_arrow_value(of)
        given = [row[name] for row in rows]
        arrays[name] = pa.array(given if convert is None else list(map(convert, given)), to_arrow(of))
    return pa.table(arrays)


def in_spark(
    spark: SparkSession, bounds: Sequence[Bound], *, nested: bool, source: str, size: int, paths: Sequence[str]
) -> dict[str, list[list[Outcome]]]:
    """Return, for each path, the outcomes of each expression for each row of `source`."""
    python, texts = PythonCalls(), []
    found: dict[str, list[list[Outcome]]] = {path: [[] for _ in bounds] for path in paths}

    def refuse(at: int, message: str) -> None:
        for outcomes in found.values():
            outcomes[at] = [("refused", message)] * size

    for at, bound in enumerate(bounds):
        try:
            texts.append((at, _text(bound, python, nested)))
        except EngineError as error:
            refuse(at, f"compiler: {error}")
    register(spark, python)
    pending = [texts] if texts else []
    while pending:
        part = pending.pop()
        try:
            tables = _run(spark, f"SELECT {', '.join(f'{text} AS c{at}' for at, text in part)} FROM {source}", paths)
        except Exception as error:  # noqa: BLE001 - what Spark says is the finding
            if len(part) == 1:
                refuse(part[0][0], f"{type(error).__name__}: {_reason(error)}")
            else:
                pending += [part[: len(part) // 2], part[len(part) // 2 :]]
            continue
        for path, table in tables.items():
            for (at, _), column in zip(part, table.columns, strict=True):
                # A struct may have fields of one name, of which Arrow gives none in Python.
                whole = column.combine_chunks()
                found[path][at] = _outcomes(whole.field(0), whole.field(1), bounds[at])
    return found


def _reason(error: Exception) -> str:
    """The first line of an error and of its causes; the lines between are the trace."""
    first, *others = str(error).splitlines() or [""]
    return "\n        ".join([first[:300], *(line[:300] for line in others if line.startswith("Caused by"))])


def _run(spark: SparkSession, text: str, paths: Sequence[str]) -> dict[str, pa.Table]:
    """Return the table of a query by path; it is parsed and analysed once, which takes longer than to run it."""
    frame, tables = spark.sql(text), {}
    for path in paths:
        for key, setting in CODEGEN[path].items():
            spark.conf.set(key, setting)
        tables[path] = frame.select("*").toArrow()
    return tables


def _compiled(bound: Bound, python: PythonCalls, nested: bool) -> tuple[Tree, Tree]:
    """The trees of an expression: its value, and whether it fails."""
    context = Context({name: s.column(name) for name in COLUMNS}, python, nested=nested)
    checked = compile_expression(bound, context)
    return checked.value, s.FALSE if checked.fails is None else s.coalesce_false(checked.fails)


def _text(bound: Bound, python: PythonCalls, nested: bool) -> str:
    value, fails = _compiled(bound, python, nested)
    return s.to_text(s.call("struct", s.cast(s.if_(fails, s.NULL, value), bound.type), fails))


def _outcomes(values: pa.Array, fails: pa.Array, bound: Bound) -> list[Outcome]:
    convert = from_arrow_value(bound.type)
    found = values.to_pylist() if convert is None else [convert(each) for each in values.to_pylist()]
    return [FAILS if fail else ("value", each) for each, fail in zip(found, fails.to_pylist(), strict=True)]


def on_arrow(bound: Bound, rows: pa.RecordBatch, *, nested: bool) -> list[Outcome] | None:
    """Return the outcomes of an expression on Arrow, None if only Spark computes it."""
    try:
        value, fails = map(value_of, _compiled(bound, PythonCalls(), nested))
        # As the planner does: types tell only when it runs.
        value(rows.slice(0, 0)), fails(rows.slice(0, 0))
    except (NotOnArrowError, pa.ArrowException, EngineError):
        return None
    found = as_array(value(rows), rows.num_rows)
    if found.type != to_arrow(bound.type):
        return [("refused", f"it is {found.type}")] * rows.num_rows
    return _outcomes(found, as_array(fails(rows), rows.num_rows), bound)


def in_evaluator(bound: Bound, rows: Sequence[Row], *, nested: bool) -> list[Outcome]:
    """Return the outcomes of an expression over columns that are lists."""
    try:
        evaluate = compile_columns(bound, Options(nested=nested))
    except EngineError as error:
        return [("refused", str(error))] * len(rows)
    failures: Failures = {}
    given = Columns({name: [row.get(name) for row in rows] for name in COLUMNS}, len(rows))
    found = evaluate(given, failures)
    return [FAILS if at in failures else ("value", value) for at, value in enumerate(found)]


def agree(left: Outcome, right: Outcome) -> bool:
    """Whether two outcomes are equal, down to the sign of zero and the order of a map.

    A map of Spark has no NULL key: within one stage it is the text that formats write for it.
    """
    return repr(_without_null_keys(left)) == repr(_without_null_keys(right))


def _without_null_keys(value: Any) -> Any:
    match value:
        case dict():
            return {"null" if key is None else key: _without_null_keys(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(map(_without_null_keys, value))
        case _:
            return value


def compared(
    spark: SparkSession, bounds: Sequence[Bound], rows: Sequence[Row], *, nested: bool, paths: Sequence[str]
) -> Iterator[Difference]:
    """Compare Spark, with and without code generation, Arrow and the evaluator over all rows."""
    table = table_of(rows)
    (whole,) = table.to_batches()
    spark.createDataFrame(table).coalesce(1).createOrReplaceTempView(VIEW)
    found = in_spark(spark, bounds, nested=nested, source=VIEW, size=len(rows), paths=paths)
    for at, bound in enumerate(bounds):
        given = {f"Spark {path}": every[at] for path, every in found.items()}
        given["evaluator"] = in_evaluator(bound, rows, nested=nested)
        if (computed := on_arrow(bound, whole, nested=nested)) is not None:
            given["Arrow"] = computed
        for number, row in enumerate(rows):
            outcomes = {path: every[number] for path, every in given.items()}
            if not _all_agree(outcomes):
                yield Difference(bound, row, nested, outcomes)


def compared_as_constants(
    spark: SparkSession, chosen: Sequence[tuple[Bound, Row]], *, nested: bool
) -> Iterator[Difference]:
    """Compare expressions whose columns are the constants of a row: in Spark, in the evaluator, and with columns."""
    fixed = [bind(with_constants(bound.node, row), COLUMNS) for bound, row in chosen]
    (path,) = paths = list(CODEGEN)[:1]
    (one_row,) = table_of([dict.fromkeys(COLUMNS)]).to_batches()
    outcomes = in_spark(spark, fixed, nested=nested, source="range(1)", size=1, paths=paths)
    for (bound, row), constants, (theirs,) in zip(chosen, fixed, outcomes[path], strict=True):
        found = {
            "Spark, constants": theirs,
            "evaluator, constants": in_evaluator(constants, [{}], nested=nested)[0],
            "evaluator, columns": in_evaluator(bound, [row], nested=nested)[0],
        }
        if (computed := on_arrow(constants, one_row, nested=nested)) is not None:
            (found["Arrow, constants"],) = computed
        if not _all_agree(found):
            yield Difference(constants, row, nested, found)


def _all_agree(outcomes: Mapping[str, Outcome]) -> bool:
    first, *others = outcomes.values()
    return first[0] != "refused" and all(agree(first, other) for other in others)


def with_constants(node: Any, row: Row) -> Any:
    """Return the expression with the constants of a row in place of columns."""
    if isinstance(node, e.ColumnRef):
        return constant(row[node.name], COLUMNS[node.name])
    if isinstance(node, tuple):
        return tuple(with_constants(each, row) for each in node)
    if isinstance(node, e.Node):
        fields = {name: getattr(node, name) for name in node.__dataclass_fields__ if name not in ("span", "type")}
        return replace(
            node,
            **{name: with_constants(each, row) for name, each in fields.items() if isinstance(each, tuple | e.Node)},
        )
    return node


def smallest(spark: SparkSession, difference: Difference, paths: Sequence[str]) -> Difference:
    """Return the difference in the smallest part of the expression that still differs over the row."""
    found = compared(spark, parts_of(difference.bound), [difference.row], nested=difference.nested, paths=paths)
    return next(found, difference)


def parts_of(bound: Bound) -> list[Bound]:
    """Return the parts of an expression that have a value by themselves, the smallest first."""
    return sorted((part for part in _closed(bound) if part.type is not None), key=_size)


def _closed(bound: Bound) -> Iterator[Bound]:
    """Yield the parts outside of lambdas, whose variables have no value elsewhere; a unit of time has no value either."""
    if not isinstance(bound.node, e.Lambda | e.IntervalUnit) and not bound.implicit:
        yield bound
        for child in bound.children:
            yield from _closed(child)


def _size(bound: Bound) -> int:
    return 1 + sum(map(_size, bound.children))


def batch(spark: SparkSession, seed: int, count: int, size: int) -> tuple[int, list[Difference]]:
    """Compare `count` expressions over `size` rows; return the number of comparisons and the shrunk differences."""
    rng = random.Random(seed)
    return batch_of(spark, list(Generator(rng).bounds(count)), some_rows(rng, size), nested=seed % 2 == 0)


def batch_of(
    spark: SparkSession, bounds: Sequence[Bound], rows: Sequence[Row], *, nested: bool
) -> tuple[int, list[Difference]]:
    """Compare expressions over rows; return the number of comparisons and the shrunk differences."""
    paths = list(CODEGEN)
    # One difference of each expression: the rows of one mostly have one cause.
    differences = {id(each.bound): each for each in compared(spark, bounds, rows, nested=nested, paths=paths)}
    shrunk = [smallest(spark, each, paths) for each in differences.values()]
    folded = [(bound, rows[-1 - at % len(rows)]) for at, bound in enumerate(bounds[::CONSTANTS])]
    shrunk += list(compared_as_constants(spark, folded, nested=nested))
    return len(bounds) * len(rows) * len(paths) + len(folded), shrunk
