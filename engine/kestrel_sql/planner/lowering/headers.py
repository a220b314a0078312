"""Plans WITH (HEADERS = 'column') of CREATE AS, which sets output records' headers (docs/adr/0012, rules K1.7)."""

from __future__ import annotations

from kestrel_sql.errors import StatementError
from kestrel_sql.plan.steps.kafka import StreamHeadersV1, TableHeadersV1
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.lowering.relation import Relation
from kestrel_sql.types.sql_types import BYTES, HEADERS_TYPE, STRING, Map

_TYPES = (Map(STRING, STRING), Map(STRING, BYTES), HEADERS_TYPE)


def with_headers(relation: Relation, column: str | None, types: Types) -> Relation:
    """Take the headers of output records from a value column; None keeps the headers of the input records.

    Raises:
        StatementError: the column does not exist, or its type cannot hold headers.
    """
    if column is None:
        return relation
    headers = next((each for each in relation.schema.value if each.name == column), None)
    if headers is None:
        raise StatementError(
            f"HEADERS column ({column}) is unknown",
            hint=f"the value columns are {', '.join(c.name for c in relation.schema.value)}",
        )
    if headers.type not in _TYPES:
        raise StatementError(f"HEADERS column must have type {_listed()}, not {headers.type}")
    step = TableHeadersV1 if relation.is_table else StreamHeadersV1
    return relation.then(step(query_context="Headers", source=relation.step, headers_column=column), types)


def _listed() -> str:
    *first, last = map(str, _TYPES)
    return f"{', '.join(first)} or {last}"
