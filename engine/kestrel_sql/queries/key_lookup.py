"""Pull queries with `WHERE key = constant`, planned once for all constants."""

from __future__ import annotations

import msgspec

from kestrel_sql.admin.answer import Answer
from kestrel_sql.dataflow.typed_values import typed_rows
from kestrel_sql.plan.steps.streams import StreamFilterV1
from kestrel_sql.queries.pull_lookup import named_keys
from kestrel_sql.queries.pull_state import PulledTable, as_read, own_steps
from kestrel_sql.queries.row_steps import RowSteps
from kestrel_sql.queries.transient import Row, TransientQuery, answer_with
from kestrel_sql.sql.nodes.expressions import ColumnRef, Comparison, ComparisonOp, IntegerLiteral, StringLiteral
from kestrel_sql.topics.records import LogEntry
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING

_PLAIN = frozenset({BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING})
"""Types whose values every format reads as they are in an answer."""


class KeyLookup(msgspec.Struct, frozen=True):
    """Answers such a query for any constant of the type that it was planned with."""

    planned: TransientQuery
    table: PulledTable
    run: RowSteps
    log: list[LogEntry]
    is_plain: bool
    """Whether the values of the columns have their types already."""

    def answer(self, constant: object) -> Answer:
        """Return the answer for a constant.

        Raises:
            QueryError: a row cannot be read.
        """
        table, columns, key = self.table, self.planned.columns, self.table.source.schema.key
        read = list(table.rows(((constant,),), self.log))
        if len(read) > 1:
            read.sort(key=table.scan_order)
        found = self.run([as_read(each, key) for each in read])
        values = [tuple(row[column.name] for column in columns) for _, row in found]
        return answer_with(self.planned, list(map(Row, values if self.is_plain else typed_rows(values, columns))))


def key_lookup(planned: TransientQuery, table: PulledTable, log: list[LogEntry]) -> KeyLookup | None:
    """Return the look-up that a planned query is.

    None if it does not compare the only key column with a constant, or computes something: a server answers look-ups on
    its event loop.
    """
    key, functions = table.source.schema.key, table.functions
    match planned.where:
        case Comparison(ComparisonOp.EQUAL, ColumnRef(), IntegerLiteral() | StringLiteral()) if len(key) == 1:
            pass
        case _:
            return None
    if planned.limit is not None or named_keys(planned.where, key, functions) is None:
        return None
    # The bytes of a key that is found equal those of the constant: the rows fulfil the condition.
    steps = [step for step in own_steps(planned.plan.physical_plan) if not isinstance(step, StreamFilterV1)]
    items = [item for step in steps for item in getattr(step, "select_expressions", ())]
    if not all(isinstance(item.expression, ColumnRef) for item in items):
        return None
    run = RowSteps(planned.plan.query_id, functions, table.settings, log, steps)
    return KeyLookup(planned, table, run, log, is_plain=all(column.type in _PLAIN for column in planned.columns))
