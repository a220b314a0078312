"""Projections, predicates, keys and groups over the rows of a relation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kestrel_sql.arrow import late
from kestrel_sql.dataflow.evaluation import Expressions, StepLog, closed, references, reports, spread
from kestrel_sql.dataflow.query import Query
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Cells, Indices, Listed, Log, Part, Rows
from kestrel_sql.expressions.columns import Column, Columns, Evaluate, Failures, unreported
from kestrel_sql.expressions.sendable import Compiled
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.values.casts import java_text
from kestrel_sql.plan.step import SelectItem, Step
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.chains import along_chains
from kestrel_sql.sql.nodes.expressions import Case, ColumnRef, Expression, FunctionCall, Lambda, Logical, NullLiteral
from kestrel_sql.types.sql_types import STRING

EXCLUDED = "The source row will be excluded from the table."


class _Item(msgspec.Struct, frozen=True):
    evaluate: Compiled
    message: str
    column: str | None
    """The column that the expression is, if it is nothing else."""
    sorts: tuple[tuple[str, Compiled], ...]


class Projection:
    """The value columns of SELECT; a NULL row stays one."""

    def __init__(self, query: Query, source: Relation, step: Step, items: Sequence[SelectItem]) -> None:
        self._log = StepLog.of(query, step)
        expressions = Expressions(query, source, nested=True)
        self._scope = expressions.scope
        self._items = [self._item(expressions, at, item) for at, item in enumerate(items)]
        self._sorts = any(item.sorts for item in self._items)
        pairs = zip(items, self._items, strict=True)
        self.by_values = [item.alias for item, own in pairs if own.column is None and not own.evaluate.has_columns]
        """The columns whose expressions have no column bodies."""

    @staticmethod
    def _item(expressions: Expressions, at: int, item: SelectItem) -> _Item:
        bound = expressions.bind(item.expression)
        text = format_expression(item.expression)
        return _Item(
            expressions.of(bound),
            f"Error computing expression {text} for column {item.alias} with index {at}",
            item.expression.name if isinstance(item.expression, ColumnRef) else None,
            tuple((name, expressions.of(call)) for name, call in _sorted_in_place(bound)),
        )

    def __call__(self, log: Log, rows: Rows, part: Part, *, silent: bool = False) -> Part:
        """Compute the columns of a version of the rows; without entries of the log if `silent`."""
        own = part.indices()
        columns = self._scope.of_part(part, own, unreported if silent else reports(self._log, log, rows, own))
        found: list[Column | Cells | None] = []
        for number, item in enumerate(self._items):
            if item.column is not None and not self._sorts:
                found.append(None)
                continue
            if not item.sorts and (array := item.evaluate.arrays(columns)) is not None:
                found.append(late.arrow_cells.Arrow(array))
                continue
            found.append(closed(item.evaluate, columns, self._failed(log, rows, own, item.message, silent=silent)))
            for name, call in item.sorts:
                # In ksqlDB a column is one Java object in all expressions of a row, also in those before the call.
                columns = self._sorted(columns, name, call)
                for other in range(number + 1):
                    if self._items[other].column == name:
                        found[other] = columns.column(name)
        return Part([*map(self._cells(part, own), self._items, found)], part.size, part.present)

    def _cells(self, part: Part, own: Indices) -> Callable[[_Item, Column | Cells | None], Cells]:
        names = self._scope.names

        def cells(item: _Item, values: Column | Cells | None) -> Cells:
            if values is None:
                return part.cells[names.index(item.column or "")]
            return Listed(spread(values, own, part.size)) if isinstance(values, list) else values

        return cells

    def _failed(
        self, log: Log, rows: Rows, own: Indices, message: str, *, silent: bool
    ) -> Callable[[int, Exception], None]:
        if silent:
            return lambda at, error: None
        return lambda at, error: self._log.failed(log, rows, own[at], message, error)

    @staticmethod
    def _sorted(columns: Columns, name: str, call: Evaluate) -> Columns:
        found = closed(call, columns.quiet())
        pairs = zip(found, columns.column(name), strict=True)
        return columns.with_columns({name: [old if new is None else new for new, old in pairs]})


@along_chains
def _sorted_in_place(bound: Bound) -> tuple[tuple[str, Bound], ...]:
    """The columns that an expression always sorts, with the calls: ARRAY_SORT sorts its argument in place."""
    if isinstance(bound.node, Case | Logical | Lambda):
        return ()
    found = tuple(each for child in bound.children for each in _sorted_in_place(child))
    match bound.node:
        case FunctionCall("ARRAY_SORT", (ColumnRef(name), *_)):
            return (*found, (name, bound))
        case _:
            return found


class Predicate:
    """A condition of WHERE or HAVING: false where it fails, and for a NULL row."""

    def __init__(self, query: Query, source: Relation, step: Step, expression: Expression) -> None:
        self._log = StepLog.of(query, step)
        expressions = Expressions(query, source, nested=False)
        self._scope, self._evaluate = expressions.scope, expressions.compiled(expression)
        self._message = f"Error evaluating predicate {format_expression(expression)}"

    def __call__(self, log: Log, rows: Rows, part: Part, *, silent: bool = False) -> list[bool | None]:
        """Say of a version of each row whether the condition holds; without entries of the log if `silent`."""
        own = part.indices()

        def failed(at: int, error: Exception) -> None:
            if not silent:
                self._log.failed(log, rows, own[at], self._message, error)

        held = closed(self._evaluate, self._scope.of_part(part, own), failed)
        return spread([each is True for each in held], own, part.size)


class _Component(msgspec.Struct, frozen=True):
    evaluate: Compiled
    from_key: Compiled | None
    message: str
    is_null: bool


class NewKey:
    """The components of a new key; one that fails is NULL (rules O5).

    Expressions over key columns only are computed from the key, also in NULL rows. All others, even `IS NULL`, are NULL
    there.
    """

    def __init__(self, query: Query, source: Relation, step: Step, expressions: Sequence[Expression]) -> None:
        self._log = StepLog.of(query, step)
        of_value = Expressions(query, source, nested=True)
        of_key = Expressions(query, source, nested=True, columns=source.schema.key)
        self._scope, self._key_scope = of_value.scope, of_key.scope
        self._components = [self._component(of_value, of_key, expression) for expression in expressions]

    @staticmethod
    def _component(of_value: Expressions, of_key: Expressions, expression: Expression) -> _Component:
        names = of_key.scope.names
        from_key = names and all(name in names for name in references(expression))
        return _Component(
            of_value.compiled(expression),
            of_key.compiled(expression) if from_key else None,
            f"Error computing new key from expression {format_expression(expression)}",
            isinstance(expression, NullLiteral),
        )

    def __call__(self, log: Log, rows: Rows) -> Part:
        """Compute the key of each row."""
        return Part([Listed(self._values(log, rows, component)) for component in self._components], rows.size)

    def _values(self, log: Log, rows: Rows, component: _Component) -> Column:
        own = rows.value.indices()
        columns = self._scope.of_part(rows.value, own, reports(self._log, log, rows, own))

        def failed(at: int, error: Exception) -> None:
            self._log.failed(log, rows, own[at], component.message, error)

        found = spread(closed(component.evaluate, columns, failed), own, rows.size)
        empty = [at for at in range(rows.size) if not rows.value.has(at)] if len(own) < rows.size else []
        if component.from_key is not None:
            from_key = closed(component.from_key, self._key_scope.of_part(rows.key, empty)) if empty else []
            for at, value in zip(empty, from_key, strict=True):
                found[at] = value
        elif not component.is_null:
            for at in empty:
                self._log.failed(log, rows, at, component.message)
        return found


class Grouping:
    """The group of a row; none where a component is NULL or fails.

    With `joined`, several components become one STRING separated by `|+|` (rules P6.4).
    """

    def __init__(
        self, query: Query, source: Relation, step: Step, expressions: Sequence[Expression], *, joined: bool
    ) -> None:
        self._log = StepLog.of(query, step)
        own = Expressions(query, source, nested=False)
        bounds = [own.bind(expression) for expression in expressions]
        self._scope, self._evaluates = own.scope, [own.of(bound) for bound in bounds]
        self._types = [bound.type or STRING for bound in bounds]
        self._joined = joined and len(expressions) > 1

    def __call__(self, log: Log, rows: Rows, part: Part, *, silent: bool = False) -> Part:
        """Compute the group of a version of each row."""
        own = part.indices()
        columns = self._scope.of_part(part, own)
        found = []
        for number, evaluate in enumerate(self._evaluates):
            failures: Failures = {}
            column = [*evaluate(columns, failures)]
            if failures or None in column:
                for index, value in enumerate(column):
                    if index in failures:
                        message = f"Error calculating group-by column with index {number}. {EXCLUDED}"
                        column[index] = None
                    elif value is None:
                        message = f"Group-by column with index {number} resolved to null. {EXCLUDED}"
                    else:
                        continue
                    if not silent:
                        self._log.failed(log, rows, own[index], message)
            found.append(column)
        present = part.present
        if any(None in column for column in found):
            complete = [None not in values for values in zip(*found, strict=True)]
            present = [each is True for each in spread(complete, own, part.size)]
        if self._joined:
            found = [[self._text(values) for values in zip(*found, strict=True)]]
        return Part([Listed(spread(column, own, part.size)) for column in found], part.size, present)

    def _text(self, values: tuple[object, ...]) -> str | None:
        if None in values:
            return None
        return "|+|".join(java_text(value, of) for value, of in zip(values, self._types, strict=True))
