"""The joining step by foreign key."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.dataflow.evaluation import Expressions, closed, reports, with_present
from kestrel_sql.dataflow.graph import Flow, GraphQuery
from kestrel_sql.dataflow.joins import foreign_key, foreign_key_join
from kestrel_sql.dataflow.projections import log_of
from kestrel_sql.dataflow.rows import Made, Rows
from kestrel_sql.expressions.columns import Column
from kestrel_sql.functions.interpreter.casts import cast_value
from kestrel_sql.operators.operator import Value
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1


def fk_table_table_join_v1(step: FkTableTableJoinV1, query: GraphQuery, left: Flow, right: Flow) -> Flow:
    """Join a table to the key of another."""
    left = _with_foreign_key(step, query, left, right)
    return query.stateful(foreign_key_join(step, query, left, right), (left, right), query.logger(step))


def _with_foreign_key(step: FkTableTableJoinV1, query: GraphQuery, left: Flow, right: Flow) -> Flow:
    """Add the foreign key to each left row; none where it is NULL or fails."""
    expression, message = foreign_key(step)
    log, expressions = log_of(query, step), Expressions(query, left, nested=False)
    bound = expressions.bind(expression)
    evaluate, of, target = expressions.of(bound), bound.type, right.schema.key[0].type

    def apply(made: Made, rows: Rows) -> Rows:
        def compute(at: list[int], given: list[Value]) -> Column:
            own = [rows[index] for index in at]
            columns = expressions.columns(given, reports(log, made, own))
            found = closed(evaluate, columns, lambda index, error: log.failed(made, own[index], message, error))
            return [cast_value(value, of, target) for value in found]

        keys = with_present([row.value for row in rows], compute)
        return [replace(row, extra=None if key is None else (key,)) for row, key in zip(rows, keys, strict=True)]

    return query.then(left, apply, left)
