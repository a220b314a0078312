"""The plan of one statement: a DDL command, a query or both."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kestrel_sql.plan.commands import DdlCommand
from kestrel_sql.plan.step import Step


class QueryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A query to start: `sources` and `sink` are names of streams and tables; `sink` is None for a source table."""

    sources: tuple[str, ...]
    sink: str | None
    physical_plan: Step
    query_id: str


class StatementPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one statement does: change the catalog, then start a query; at least one of the two is set."""

    tag: ClassVar[str] = "ksqlPlanV1"
    statement_text: str
    ddl_command: DdlCommand | None = None
    query_plan: QueryPlan | None = None
