"""Runs stateless steps over single rows in Python.

For the few rows of a pull query, starting a Spark job would take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kestrel_sql.dataflow.log_entries import PROCESSING
from kestrel_sql.errors import UnsupportedError
from kestrel_sql.expressions.compiler import Options, compile_expression
from kestrel_sql.expressions.of_row import value_of
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.schemas import result_schema, scope_of
from kestrel_sql.plan.step import SelectItem, Step
from kestrel_sql.plan.steps.streams import StreamFilterV1, StreamSelectV1
from kestrel_sql.plan.steps.tables import TableFilterV1, TableSelectV1
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.topics.records import LogEntry
from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import SqlType

RowValues = dict[str, Any]
"""The value columns of a row, by name."""

RowStep = Callable[[RowValues], RowValues | None]
"""Returns the row after a step; None if the step drops it."""


@dataclass(slots=True)
class RowSteps:
    """Makes functions of steps.

    An expression that fails is NULL, a condition that fails is false; both add to `log` (rules E8).
    """

    query_id: str
    functions: Registry
    settings: Mapping[str, str]
    log: list[LogEntry] = field(default_factory=list)

    def chain(self, steps: Sequence[Step]) -> RowStep:
        """Return one function for several steps in order.

        Raises:
            UnsupportedError: a step or an expression needs Spark.
        """
        made = [self._step(step) for step in steps]

        def run(row: RowValues) -> RowValues | None:
            found: RowValues | None = row
            for each in made:
                if found is None:
                    return None
                found = each(found)
            return found

        return run

    def _step(self, step: Step) -> RowStep:
        match step:
            case StreamFilterV1(filter_expression=condition) | TableFilterV1(filter_expression=condition):
                return self._filter(step, condition)
            case StreamSelectV1(select_expressions=items) | TableSelectV1(select_expressions=items):
                return self._select(step, items)
            case _:
                raise UnsupportedError(f"{step.tag} is not a step over single rows")

    def _filter(self, step: Step, condition: Expression) -> RowStep:
        evaluate = compile_expression(bind(condition, self._scope(step), self.functions), self._options(nested=False))
        message = f"Error evaluating predicate {format_expression(condition)}"

        def keep(row: RowValues) -> RowValues | None:
            try:
                return row if value_of(evaluate, row) is True else None
            except Exception:  # noqa: BLE001 - any exception makes the condition false
                self._log_error(step, message)
                return None

        return keep

    def _select(self, step: Step, items: Sequence[SelectItem]) -> RowStep:
        scope = self._scope(step)
        columns = [(item.alias, self._column(step, at, item, scope)) for at, item in enumerate(items)]
        return lambda row: {alias: column(row) for alias, column in columns}

    def _column(
        self, step: Step, index: int, item: SelectItem, scope: Mapping[str, SqlType]
    ) -> Callable[[RowValues], Any]:
        evaluate = compile_expression(bind(item.expression, scope, self.functions), self._options(nested=True))
        message = (
            f"Error computing expression {format_expression(item.expression)} for column {item.alias} with index"
            f" {index}"
        )

        def compute(row: RowValues) -> Any:
            try:
                return value_of(evaluate, row)
            except Exception:  # noqa: BLE001 - any exception makes the column NULL
                self._log_error(step, message)
                return None

        return compute

    def _scope(self, step: Step) -> Mapping[str, SqlType]:
        (source,) = step.upstream
        return scope_of(self.schema(source))

    def schema(self, step: Step) -> Schema:
        """Return the schema after a step."""
        return result_schema(step, lambda expression, scope: bind(expression, scope, self.functions).type)

    def _options(self, *, nested: bool) -> Options:
        return Options(
            nested=nested and self._flag("ksql.nested.error.set.null"),
            preserve_nulls=self._flag("ksql.cast.strings.preserve.nulls"),
            settings=self.settings,
        )

    def _flag(self, name: str) -> bool:
        return self.settings.get(name, "true").lower() == "true"

    def _log_error(self, step: Step, message: str) -> None:
        logger = f"processing.{self.query_id}.{step.query_context.replace('/', '.')}"
        self.log.append(LogEntry(kind=PROCESSING, logger=logger, message=message))
