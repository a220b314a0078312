"""The ids of queries that answer a client, as ksqlDB gives them (rest-api.md, section 9.1)."""

from __future__ import annotations

import time
from uuid import uuid4

from kestrel_sql.planner.config import Config
from kestrel_sql.queries.transient import is_scalable
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import Query


def pull_id(number: int) -> str:
    """Return the id of a pull query; `number` tells it from others of this server."""
    return f"query_{int(time.time() * 1000)}_{number}"


def transient_id(query: Query, config: Config, session: Session, number: int) -> str:
    """Return the id of a query; `number` tells it from others of this server."""
    if query.emit is None:
        return pull_id(number)
    if is_scalable(query, config, (persistent.plan for persistent in session.queries.values())):
        return f"SCALABLE_PUSH_QUERY_{uuid4()}"
    return f"transient_{query.source.name}_{number}"
