"""Projections, predicates, keys and groups over the rows of a relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kestrel_sql.dataflow.evaluation import Expressions, Rows, StepLog, closed, references, reports, with_present
from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Made
from kestrel_sql.expressions.columns import Column, Columns, Evaluate, Failures, unreported
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.interpreter.casts import java_text
from kestrel_sql.operators.operator import Key, Value
from kestrel_sql.plan.step import SelectItem, Step
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import Case, ColumnRef, Expression, FunctionCall, Lambda, Logical, NullLiteral
from kestrel_sql.types.sql_types import STRING

EXCLUDED = "The source row will be excluded from the table."


def log_of(query: GraphQuery, step: Step) -> StepLog:
    """Return the log of a step."""
    return StepLog(query.logger(step), query.logs_rows)


@dataclass(frozen=True, slots=True)
class _Item:
    name: str
    evaluate: Evaluate
    message: str
    column: str | None
    """The column that the expression is, if it is nothing else."""
    sorts: tuple[tuple[str, Evaluate], ...]


class Projection:
    """The value columns of SELECT; a NULL row stays one."""

    def __init__(self, query: GraphQuery, source: Relation, step: Step, items: Sequence[SelectItem]) -> None:
        self._log = log_of(query, step)
        self._expressions = Expressions(query, source, nested=True)
        self._items = [self._item(at, item) for at, item in enumerate(items)]

    def _item(self, at: int, item: SelectItem) -> _Item:
        bound = self._expressions.bind(item.expression)
        text = format_expression(item.expression)
        return _Item(
            item.alias,
            self._expressions.of(bound),
            f"Error computing expression {text} for column {item.alias} with index {at}",
            item.expression.name if isinstance(item.expression, ColumnRef) else None,
            tuple((name, self._expressions.of(call)) for name, call in _sorted_in_place(bound)),
        )

    def __call__(
        self, made: Made, rows: Rows, values: Sequence[Value | None], *, silent: bool = False
    ) -> list[Value | None]:
        """Compute the columns of each value of the rows; without entries of the log if `silent`."""

        def compute(at: list[int], given: list[Value]) -> list[Value]:
            own = [rows[index] for index in at]
            columns = self._expressions.columns(given, unreported if silent else reports(self._log, made, own))
            found: list[Column] = []
            for number, item in enumerate(self._items):
                found.append(closed(item.evaluate, columns, self._failed(made, own, item.message, silent=silent)))
                for name, call in item.sorts:
                    # In ksqlDB a column is one Java object in all expressions of a row, also in those before the call.
                    columns = self._sorted(columns, name, call)
                    for other in range(number + 1):
                        if self._items[other].column == name:
                            found[other] = columns.column(name)
            return list(zip(*found, strict=True)) if found else [()] * len(given)

        return with_present(values, compute)

    def _failed(self, made: Made, rows: Rows, message: str, *, silent: bool) -> Callable[[int, Exception], None]:
        if silent:
            return lambda at, error: None
        return lambda at, error: self._log.failed(made, rows[at], message, error)

    @staticmethod
    def _sorted(columns: Columns, name: str, call: Evaluate) -> Columns:
        found = closed(call, columns.quiet())
        pairs = zip(found, columns.column(name), strict=True)
        return columns.with_columns({name: [old if new is None else new for new, old in pairs]})


def _sorted_in_place(bound: Bound) -> Iterator[tuple[str, Bound]]:
    """The columns that an expression always sorts, with the calls: ARRAY_SORT sorts its argument in place."""
    if isinstance(bound.node, Case | Logical | Lambda):
        return
    for child in bound.children:
        yield from _sorted_in_place(child)
    if (
        isinstance(bound.node, FunctionCall)
        and bound.node.name == "ARRAY_SORT"
        and isinstance(bound.children[0].node, ColumnRef)
    ):
        yield bound.children[0].node.name, bound


class Predicate:
    """A condition of WHERE or HAVING: false where it fails, and for a NULL row."""

    def __init__(self, query: GraphQuery, source: Relation, step: Step, expression: Expression) -> None:
        self._log = log_of(query, step)
        self._expressions = Expressions(query, source, nested=False)
        self._evaluate = self._expressions.compiled(expression)
        self._message = f"Error evaluating predicate {format_expression(expression)}"

    def __call__(
        self, made: Made, rows: Rows, values: Sequence[Value | None], *, silent: bool = False
    ) -> list[bool | None]:
        """Say of each value of the rows whether the condition holds; without entries of the log if `silent`."""

        def compute(at: list[int], given: list[Value]) -> list[bool]:
            def failed(index: int, error: Exception) -> None:
                if not silent:
                    self._log.failed(made, rows[at[index]], self._message, error)

            return [held is True for held in closed(self._evaluate, self._expressions.columns(given), failed)]

        return with_present(values, compute)


class NewKey:
    """The components of a new key; one that fails is NULL (rules O5).

    Expressions over key columns only are computed from the key, also in NULL rows. All others, even `IS NULL`, are NULL
    there.
    """

    def __init__(self, query: GraphQuery, source: Relation, step: Step, expressions: Sequence[Expression]) -> None:
        self._log = log_of(query, step)
        self._of_value = Expressions(query, source, nested=True)
        self._of_key = Expressions(query, source, nested=True, columns=source.schema.key)
        self._width = len(source.schema.key)
        self._components = [self._component(source, expression) for expression in expressions]

    def _component(self, source: Relation, expression: Expression) -> _Component:
        names = {column.name for column in source.schema.key}
        from_key = names and all(name in names for name in references(expression))
        return _Component(
            self._of_value.compiled(expression),
            self._of_key.compiled(expression) if from_key else None,
            f"Error computing new key from expression {format_expression(expression)}",
            isinstance(expression, NullLiteral),
        )

    def __call__(self, made: Made, rows: Rows) -> list[Key]:
        """Compute the key of each row."""
        keys = [self._values(made, rows, component) for component in self._components]
        return list(zip(*keys, strict=True))

    def _values(self, made: Made, rows: Rows, component: _Component) -> Column:
        full = [at for at, row in enumerate(rows) if row.value is not None]
        empty = [at for at, row in enumerate(rows) if row.value is None]
        found: Column = [None] * len(rows)
        own = [rows[at] for at in full]
        values = [row.value for row in own if row.value is not None]
        columns = self._of_value.columns(values, reports(self._log, made, own))

        def failed(at: int, error: Exception) -> None:
            self._log.failed(made, own[at], component.message, error)

        for at, value in zip(full, closed(component.evaluate, columns, failed) if full else (), strict=True):
            found[at] = value
        if component.from_key is not None:
            keys = [rows[at].key or (None,) * self._width for at in empty]
            from_key = closed(component.from_key, self._of_key.columns(keys)) if empty else []
            for at, value in zip(empty, from_key, strict=True):
                found[at] = value
        elif not component.is_null:
            for at in empty:
                self._log.failed(made, rows[at], component.message)
        return found


@dataclass(frozen=True, slots=True)
class _Component:
    evaluate: Evaluate
    from_key: Evaluate | None
    message: str
    is_null: bool


class Grouping:
    """The group of a row; None where a component is NULL or fails.

    With `joined`, several components become one STRING separated by `|+|` (rules P6.4).
    """

    def __init__(
        self, query: GraphQuery, source: Relation, step: Step, expressions: Sequence[Expression], *, joined: bool
    ) -> None:
        self._log = log_of(query, step)
        self._expressions = Expressions(query, source, nested=False)
        bounds = [self._expressions.bind(expression) for expression in expressions]
        self._evaluates = [self._expressions.of(bound) for bound in bounds]
        self._types = [bound.type or STRING for bound in bounds]
        self._joined = joined and len(expressions) > 1

    def __call__(
        self, made: Made, rows: Rows, values: Sequence[Value | None], *, silent: bool = False
    ) -> list[Key | None]:
        """Compute the group of each value of the rows; without entries of the log if `silent`."""

        def compute(at: list[int], given: list[Value]) -> list[Key | None]:
            columns = self._expressions.columns(given)
            own = [rows[index] for index in at]
            found = []
            for number, evaluate in enumerate(self._evaluates):
                failures: Failures = {}
                column = [*evaluate(columns, failures)]
                for index, value in enumerate(column):
                    if index in failures:
                        message = f"Error calculating group-by column with index {number}. {EXCLUDED}"
                        column[index] = None
                    elif value is None:
                        message = f"Group-by column with index {number} resolved to null. {EXCLUDED}"
                    else:
                        continue
                    if not silent:
                        self._log.failed(made, own[index], message)
                found.append(column)
            return [self._key(key) for key in zip(*found, strict=True)]

        return with_present(values, compute)

    def _key(self, values: tuple[Any, ...]) -> Key | None:
        if any(value is None for value in values):
            return None
        if not self._joined:
            return values
        texts = (value if of == STRING else java_text(value, of) for value, of in zip(values, self._types, strict=True))
        return ("|+|".join(texts),)
