"""Timestamps from a column, in sources and sinks."""

from __future__ import annotations

from collections.abc import Sequence

from kestrel_sql.dataflow.evaluation import Expressions, Rows, closed, with_present
from kestrel_sql.dataflow.graph import GraphQuery
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.errors import PlanError
from kestrel_sql.operators.operator import Value
from kestrel_sql.plan.step import TimestampColumn
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, FunctionCall, StringLiteral
from kestrel_sql.types import sql_types as t


class Timestamps:
    """The timestamps (ms) in a column of the key or of the value.

    BIGINT and TIMESTAMP columns contain the timestamp itself; STRING columns are parsed with a Java pattern.
    """

    def __init__(self, query: GraphQuery, source: Relation, column: TimestampColumn) -> None:
        """Find the column.

        Raises:
            PlanError: the source has no such column.
        """
        own = {each.name for each in source.schema.value}
        self._keys = [at for at, each in enumerate(source.schema.key) if each.name not in own]
        keys = [source.schema.key[at] for at in self._keys]
        self._expressions = Expressions(query, source, nested=False, columns=[*source.schema.value, *keys])
        found = next((each.type for each in (*source.schema.value, *keys) if each.name == column.column), None)
        if found is None:
            raise PlanError(f"there is no column {t.quote(column.column)}", path="$..timestampColumn.column")
        reference: Expression = ColumnRef(column.column)
        if found == t.STRING:
            reference = FunctionCall("STRINGTOTIMESTAMP", (reference, StringLiteral(column.format or "")))
        self._evaluate = self._expressions.compiled(reference)

    def __call__(self, rows: Rows) -> Sequence[int | None]:
        """Return the timestamp of each row; None where it has none, as a NULL row."""

        def compute(at: list[int], given: list[Value]) -> list[int | None]:
            keys = (rows[index].key for index in at)
            values = [
                (*value, *(None if key is None else key[place] for place in self._keys))
                for value, key in zip(given, keys, strict=True)
            ]
            times = closed(self._evaluate, self._expressions.columns(values))
            return [None if time is None else int(time) for time in times]

        return with_present([row.value for row in rows], compute)
