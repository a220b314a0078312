"""What a carrier needs to know of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.plan.document import QueryPlan


class QueryRun(msgspec.Struct, frozen=True, kw_only=True):
    """One query to run.

    Its plan, the settings it was planned with, and a function that completes its serdes with schemas.
    """

    plan: QueryPlan
    settings: Mapping[str, str] = {}
    serde: Callable[[SerdeSpec], SerdeSpec] = lambda spec: spec
    queryable: bool = False
    """Whether pull queries may read its table, which is then materialised (`kestrel_sql.spark.build.queryable`)."""
    replaceable: bool = False
    """Whether CREATE OR REPLACE may change its filters; only with `queryable`."""
