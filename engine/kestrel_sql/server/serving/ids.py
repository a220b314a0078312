"""The ids of queries that answer a client, as ksqlDB gives them (rest-api.md, section 9.1)."""

from __future__ import annotations

import time
from uuid import uuid4

from kestrel_sql.planner.config import Config
from kestrel_sql.planner.expressions.walk import column_refs
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import Query, SelectExpression
from kestrel_sql.types.schema import ROWOFFSET, ROWPARTITION

_POSITIONS = frozenset({ROWPARTITION.name, ROWOFFSET.name})


def transient_id(query: Query, config: Config, session: Session, number: int) -> str:
    """Return the id of a query; `number` tells it from others of this server."""
    if query.emit is None:
        return f"query_{int(time.time() * 1000)}_{number}"
    if is_scalable(query, config, session):
        return f"SCALABLE_PUSH_QUERY_{uuid4()}"
    return f"transient_{query.source.name}_{number}"


def is_scalable(query: Query, config: Config, session: Session) -> bool:
    """Whether ksqlDB would run a push query as one that shares the work of the query that writes its source."""
    if not config.flag("ksql.query.push.v2.enabled") or config["auto.offset.reset"].lower() != "latest":
        return False
    if query.joins or query.window is not None or any((query.group_by, query.partition_by, query.having)):
        return False
    selected = [item.expression for item in query.select if isinstance(item, SelectExpression)]
    expressions = [*selected, *([query.where] if query.where is not None else [])]
    if any(ref.name in _POSITIONS for expression in expressions for ref in column_refs(expression)):
        return False
    writers = [each for each in session.queries.values() if each.plan.sink == query.source.name]
    return len(writers) == 1
