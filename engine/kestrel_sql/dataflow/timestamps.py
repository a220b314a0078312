"""Timestamps from a column, in sources and sinks."""

from __future__ import annotations

from kestrel_sql.dataflow.evaluation import Expressions, closed, spread
from kestrel_sql.dataflow.query import Query
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.rows import Rows
from kestrel_sql.errors import PlanError
from kestrel_sql.expressions.columns import Column
from kestrel_sql.plan.step import TimestampColumn
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, FunctionCall, StringLiteral
from kestrel_sql.types import sql_types as t


class Timestamps:
    """The timestamps (ms) in a column of the key or of the value.

    BIGINT and TIMESTAMP columns contain the timestamp itself; STRING columns are parsed with a Java pattern.
    """

    def __init__(self, query: Query, source: Relation, column: TimestampColumn) -> None:
        """Find the column.

        Raises:
            PlanError: the source has no such column.
        """
        own = {each.name for each in source.schema.value}
        self._keys = [at for at, each in enumerate(source.schema.key) if each.name not in own]
        keys = [source.schema.key[at] for at in self._keys]
        expressions = Expressions(query, source, nested=False, columns=[*source.schema.value, *keys])
        found = next((each.type for each in (*source.schema.value, *keys) if each.name == column.column), None)
        if found is None:
            raise PlanError(f"there is no column {t.quote(column.column)}", path="$..timestampColumn.column")
        reference: Expression = ColumnRef(column.column)
        if found == t.STRING:
            reference = FunctionCall("STRINGTOTIMESTAMP", (reference, StringLiteral(column.format or "")))
        self._scope, self._evaluate = expressions.scope, expressions.compiled(reference)

    def __call__(self, rows: Rows) -> Column:
        """Return the timestamp of each row; None where it has none, as a NULL row."""
        own = rows.value.indices()
        cells = [*rows.value.cells, *(rows.key.cells[at] for at in self._keys)]
        times = closed(self._evaluate, self._scope.columns(cells, rows.size, own))
        return spread([None if time is None else int(time) for time in times], own, rows.size)
