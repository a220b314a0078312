"""The plain form of an operator."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate, TableAggregate
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate
from kestrel_sql.operators.joins.foreign_key import ForeignKeyJoin
from kestrel_sql.operators.joins.stream_stream import StreamStreamJoin
from kestrel_sql.operators.joins.stream_table import StreamTableJoin
from kestrel_sql.operators.joins.table_table import TableJoin
from kestrel_sql.operators.operator import Operator
from kestrel_sql.operators.tables.materialise import Materialise
from kestrel_sql.operators.tables.stream_time import StreamTime
from kestrel_sql.operators.tables.table_store import TableStore
from tests.engine.operators.row_forms import (
    foreign_key,
    previous_row,
    queryable,
    sessions,
    stream_stream,
    stream_table,
    table_table,
    unwindowed,
    windows,
)
from tests.engine.operators.row_forms import stream_time as times


def in_row_form(stateful: Stateful) -> Stateful:
    """Return a step with the plain form of its operator."""
    widths = [len(relation.schema.value) for relation in stateful.inputs]
    return replace(stateful, operator=row_form(stateful.operator, widths, len(stateful.output.schema.value)))


def row_form(operator: Operator, widths: list[int], width: int) -> Operator:
    """Return the plain form of an operator, whose inputs and result have so many columns; else itself."""
    match operator:
        case Materialise(key_bytes=keys, rowtime=rowtime):
            return previous_row.Materialise(key_bytes=keys, rowtime=rowtime)
        case TableStore(key_bytes=keys, width=columns):
            return queryable.TableStore(key_bytes=keys, width=columns)
        case StreamTime(key_bytes=keys):
            return times.StreamTime(key_bytes=keys)
        case StreamTableJoin(join_type=kind, key_bytes=keys, window_size_ms=size):
            return stream_table.StreamTableJoin(
                join_type=kind,
                key_bytes=keys,
                left_width=widths[0],
                right_width=widths[1],
                placeholder=width > sum(widths),
                window_size_ms=size,
            )
        case TableJoin(join_type=kind, key_bytes=keys):
            return table_table.TableJoin(
                join_type=kind,
                key_bytes=keys,
                left_width=widths[0],
                right_width=widths[1],
                placeholder=width > sum(widths),
            )
        case ForeignKeyJoin(join_type=kind, key_bytes=keys, foreign_key_bytes=foreign):
            return foreign_key.ForeignKeyJoin(
                join_type=kind, key_bytes=keys, foreign_key_bytes=foreign, left_width=widths[0], right_width=widths[1]
            )
        case StreamStreamJoin():
            return stream_stream.StreamStreamJoin(
                join_type=operator.join_type,
                key_bytes=operator.key_bytes,
                before_ms=operator.before_ms,
                after_ms=operator.after_ms,
                grace_ms=operator.grace_ms,
                left_width=widths[0],
                right_width=widths[1],
                placeholder=width > sum(widths),
                window_size_ms=operator.window_size_ms,
            )
        case _:
            return aggregate_form(operator)


def aggregate_form(operator: Operator) -> Operator:
    """Return the plain form of an aggregate; else the operator."""
    match operator:
        case StreamAggregate(key_bytes=keys, columns=columns, calls=calls, with_old=old):
            return unwindowed.StreamAggregate(key_bytes=keys, columns=columns, calls=calls, with_old=old)
        case TableAggregate(key_bytes=keys, columns=columns, calls=calls):
            return unwindowed.TableAggregate(key_bytes=keys, columns=columns, calls=calls)
        case TimeWindowAggregate():
            return windows.TimeWindowAggregate(
                key_bytes=operator.key_bytes,
                columns=operator.columns,
                calls=operator.calls,
                size_ms=operator.size_ms,
                advance_ms=operator.advance_ms,
                grace_ms=operator.grace_ms,
                retention_ms=operator.retention_ms,
                final=operator.final,
                has_cache=operator.has_cache,
                with_old=operator.with_old,
            )
        case SessionWindowAggregate():
            return sessions.SessionWindowAggregate(
                key_bytes=operator.key_bytes,
                columns=operator.columns,
                calls=operator.calls,
                gap_ms=operator.gap_ms,
                grace_ms=operator.grace_ms,
                retention_ms=operator.retention_ms,
                final=operator.final,
            )
        case _:
            return operator
