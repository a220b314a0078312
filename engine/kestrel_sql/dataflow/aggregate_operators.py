"""The operators of the aggregating steps, and the facts of what they give."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kestrel_sql.dataflow import internal_topics
from kestrel_sql.dataflow.key_bytes import key_bytes
from kestrel_sql.dataflow.query import Query
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.errors import PropertyError, UnsupportedError
from kestrel_sql.functions.declaration import Aggregate, AggregateCall, Aggregator
from kestrel_sql.java.numbers import parse_long
from kestrel_sql.operators.aggregates.group_rows import Calls, Columns
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.suppress import TableSuppress
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate, TableAggregate
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate
from kestrel_sql.operators.operator import Operator
from kestrel_sql.plan.schemas import of_column, scope_of
from kestrel_sql.plan.step import Formats, Step, WindowInfo, WindowType
from kestrel_sql.plan.steps.aggregates import (
    StreamAggregateV1,
    StreamWindowedAggregateV1,
    TableAggregateV1,
)
from kestrel_sql.sql.nodes.expressions import (
    BooleanLiteral,
    ColumnRef,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    FunctionCall,
    IntegerLiteral,
    LongLiteral,
    Negate,
    NullLiteral,
    StringLiteral,
)
from kestrel_sql.sql.nodes.statements import Emit, HoppingWindow, SessionWindow, TumblingWindow, Window
from kestrel_sql.types.time_units import DAY_MS

AnyAggregate = StreamAggregateV1 | StreamWindowedAggregateV1 | TableAggregateV1

CACHE_SIZES = ("statestore.cache.max.bytes", "cache.max.bytes.buffering")
"""The properties that give the size of the cache; the first that is set counts (rule O9.4)."""


def stream_aggregate(step: StreamAggregateV1, query: Query, source: Relation) -> tuple[Operator, Relation]:
    """Aggregate a stream per key."""
    columns, calls = _columns(step, query, source)
    old = step is not query.unread
    operator = StreamAggregate(key_bytes=key_bytes(query, source), columns=columns, calls=calls, with_old=old)
    return operator, _aggregated(step, query, source)


def table_aggregate(step: TableAggregateV1, query: Query, source: Relation) -> tuple[Operator, Relation]:
    """Aggregate a table per group."""
    columns, calls = _columns(step, query, source)
    old = step is not query.unread
    operator = TableAggregate(key_bytes=key_bytes(query, source), columns=columns, calls=calls, with_old=old)
    return operator, replace(_aggregated(step, query, source), window=None)


def windowed_aggregate(step: StreamWindowedAggregateV1, query: Query, source: Relation) -> tuple[Operator, Relation]:
    """Aggregate a stream per key and window."""
    columns, calls = _columns(step, query, source)
    window, final = step.window_expression.window, step.window_expression.emit is Emit.FINAL
    grace, retention = grace_and_retention(window)
    keys, result = key_bytes(query, source), _aggregated(step, query, source)
    if isinstance(window, SessionWindow):
        session = SessionWindowAggregate(
            key_bytes=keys,
            columns=columns,
            calls=calls,
            gap_ms=window.gap.millis,
            grace_ms=grace,
            retention_ms=retention,
            final=final,
        )
        return session, replace(result, window=WindowInfo(WindowType.SESSION), suppress_ms=grace + window.gap.millis)
    size = window.size.millis
    timed = TimeWindowAggregate(
        key_bytes=keys,
        columns=columns,
        calls=calls,
        size_ms=size,
        advance_ms=window.advance.millis if isinstance(window, HoppingWindow) else size,
        grace_ms=grace,
        retention_ms=retention,
        final=final,
        has_cache=has_cache(query.settings),
        with_old=step is not query.unread,
    )
    kind = WindowType.TUMBLING if isinstance(window, TumblingWindow) else WindowType.HOPPING
    return timed, replace(result, window=WindowInfo(kind, size), suppress_ms=grace)


def table_suppress(query: Query, source: Relation) -> tuple[Operator, Relation]:
    """Hold results back until their window closes."""
    operator = TableSuppress(key_bytes=key_bytes(query, source), grace_ms=source.suppress_ms)
    return operator, replace(source, has_old=False)


def grace_and_retention(window: Window) -> tuple[int, int]:
    """Return grace and retention (ms) of a window, with the defaults of rules O8."""
    length = window.gap.millis if isinstance(window, SessionWindow) else window.size.millis
    grace = window.grace.millis if window.grace else max(DAY_MS - length, 0)
    needed = length + grace
    retention = window.retention.millis if window.retention else needed
    return grace, max(retention, needed)


def retention_of(step: Step) -> int | None:
    """Return how long (ms) the hopping or tumbling windows of a plan are kept; None without such windows."""
    while len(step.upstream) == 1:
        if isinstance(step, StreamWindowedAggregateV1):
            window = step.window_expression.window
            return None if isinstance(window, SessionWindow) else grace_and_retention(window)[1]
        (step,) = step.upstream
    return None


def has_cache(settings: Mapping[str, str]) -> bool:
    """Whether stores have a cache, which a server has and ksqlDB's tests have not (rule O9.4).

    Raises:
        PropertyError: the size of the cache is not a number of bytes.
    """
    for name in CACHE_SIZES:
        text = settings.get(name)
        if text is not None:
            return _bytes(name, text) > 0
    return True


def _bytes(name: str, text: str) -> int:
    try:
        size = parse_long(text.strip())
    except ValueError:
        raise PropertyError(f"Invalid value {text} for configuration {name}: Not a number of type LONG") from None
    if size < 0:
        raise PropertyError(f"Invalid value {text} for configuration {name}: Value must be at least 0")
    return size


def _aggregated(step: AnyAggregate, query: Query, source: Relation) -> Relation:
    return replace(
        source,
        schema=query.schema(step, source),
        is_table=True,
        has_old=step is not query.unread,
        has_old_key=False,
        suppress_ms=0,
    )


def _columns(step: AnyAggregate, query: Query, source: Relation) -> tuple[Columns, Calls]:
    positions = {column.name: i for i, column in enumerate(source.schema.value)}
    columns = tuple(of_column(step, "nonAggregateColumns", name, positions) for name in step.non_aggregate_columns)
    return columns, tuple(
        _call(call, query, source, positions, step.internal_formats) for call in step.aggregation_functions
    )


def _call(
    call: FunctionCall, query: Query, source: Relation, positions: dict[str, int], formats: Formats
) -> tuple[Aggregator, tuple[int, ...]]:
    bound = query.bind(call, scope_of(source.schema))
    function = bound.function
    if not isinstance(function, Aggregate) or bound.type is None:
        raise UnsupportedError(f"{call.name} is not an aggregate function")
    choice = query.functions.choose(call.name, [child.type for child in bound.children])
    constants = set(choice.literals)
    indices = []
    types = []
    literals = []
    for at, child in enumerate(bound.children):
        if at in constants:
            literals.append(_constant(child.node))
        elif isinstance(child.node, ColumnRef):
            indices.append(positions[child.node.name])
            types.append(child.type)
        else:
            raise UnsupportedError(f"{call.name} takes columns and constants, not expressions")
    aggregator = function.factory(AggregateCall(tuple(types), bound.type, tuple(literals), query.function_settings))
    is_listed = function.intermediate is not None
    kind = bound.type if function.intermediate is None else function.intermediate(tuple(types))
    restored = internal_topics.restored(formats, kind, aggregator.initialize(), is_listed=is_listed)
    fold = aggregator.fold if restored is None else None
    return replace(aggregator, name=call.name, restored=restored, fold=fold), tuple(indices)


def _constant(node: Expression) -> object:
    match node:
        case Negate(operand):
            value = _constant(operand)
            assert isinstance(value, int | float)  # noqa: S101 - the binder lets no other through
            return -value
        case (
            BooleanLiteral(value)
            | IntegerLiteral(value)
            | LongLiteral(value)
            | DecimalLiteral(value)
            | DoubleLiteral(value)
            | StringLiteral(value)
        ):
            return value
        case NullLiteral():
            return None
        case _:
            raise UnsupportedError("an aggregate's constant must be a literal")
