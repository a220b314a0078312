"""Compares an application with its checkpoint.

Which queries resume, which are new, and which have changed too much to resume.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.catalog.upgrade import check_plan_upgrade
from kestrel_sql.dataflow.aggregate_operators import CACHE_SIZES, has_cache
from kestrel_sql.errors import StatementError
from kestrel_sql.kafka.run.manifest import Manifest, StoredQuery
from kestrel_sql.plan.codec.plan_file import PlanFile, decode_statement, encode_statement
from kestrel_sql.plan.diff import diff_plans
from kestrel_sql.plan.document import QueryPlan, StatementPlan
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.aggregates import StreamWindowedAggregateV1
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.known_properties import STREAMS_PREFIX
from kestrel_sql.session.session import PersistentQuery
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.sql.nodes.statements import CreateAs, Emit, SessionWindow
from kestrel_sql.sql.parse.parser import ParsedStatement

_SHOWN = 3
_LOGGING = "ksql.logging."


class NamedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query of the application, with its name in the manifest, which other statements do not change."""

    name: str
    query: PersistentQuery
    replaces: bool
    """Whether its statement has OR REPLACE."""


def named_queries(
    queries: Mapping[str, PersistentQuery], catalog: Catalog, statements: Sequence[ParsedStatement]
) -> list[NamedQuery]:
    """Name the queries that write a topic, in the order of their statements.

    A CREATE AS is named after what it creates, an INSERT INTO after its sink and sources. Query ids are not stable,
    because their numbers change if a statement is inserted before.
    """
    replacing = {
        parsed.statement.name
        for parsed in statements
        if isinstance(parsed.statement, CreateAs) and parsed.statement.or_replace
    }
    seen: Counter[str] = Counter()
    found = []
    for query in queries.values():
        sink = query.plan.sink
        if sink is None:
            continue
        source = catalog.sources.get(sink)
        if source is not None and source.created_by == query.id:
            name = f"CREATE {source.kind.value} {sink}"
            found.append(NamedQuery(name=name, query=query, replaces=sink in replacing))
            continue
        name = f"INSERT INTO {sink} FROM {', '.join(query.plan.sources)}"
        seen[name] += 1
        found.append(
            NamedQuery(name=name if seen[name] == 1 else f"{name} ({seen[name]})", query=query, replaces=False)
        )
    return found


def gone(manifest: Manifest, queries: Sequence[NamedQuery]) -> list[StoredQuery]:
    """Return the queries of the checkpoint that the application no longer has."""
    names = {query.name for query in queries}
    return [stored for stored in manifest.queries.values() if stored.name not in names]


def resumed(named: NamedQuery, stored: StoredQuery) -> QueryPlan:
    """Return the plan with which a query resumes from its checkpoint, with the query id that it has there.

    Raises:
        StatementError: the query has changed so that it may not resume; names the changes.
    """
    before = plan_of(stored)
    after = replace(named.query.plan, query_id=stored.id)
    changes = changes_between(before, Config.of(stored.settings), after, named.query.config)
    if not changes:
        return after
    if not named.replaces:
        raise StatementError(
            f"the query {stored.id} differs from that in the checkpoint; changed: {_listed(changes)}",
            hint=(
                "use CREATE OR REPLACE to resume where its state still matches, choose another name, or use a new"
                " checkpoint"
            ),
        )
    check_plan_upgrade(before.physical_plan, after.physical_plan)
    return after


def changes_between(before: QueryPlan, was: Config, after: QueryPlan, now: Config) -> list[str]:
    """Return the differences between two plans of a query and between the settings that matter to them."""
    found = [str(change) for change in _changes(before, replace(after, query_id=before.query_id))]
    old, new = relevant(was, before), relevant(now, after)
    return found + [f"{key}\n  - {old.get(key)}\n  + {new.get(key)}" for key in _differing(old, new)]


def plan_of(stored: StoredQuery) -> QueryPlan:
    """Return the plan of a stored query."""
    plan = decode_statement(stored.plan).query_plan
    if plan is None:
        raise StatementError(f"the checkpoint contains no plan of the query {stored.id}")
    return plan


def operators(pipeline: Pipeline) -> list[list[str]]:
    """Return the names of the stateful operators by level, which must not change for a checkpoint."""
    return [[type(stateful.operator).__name__ for stateful in level] for level in pipeline.graph.levels]


def relevant(config: Config, plan: QueryPlan) -> dict[str, str]:
    """Return the settings that change the result of a query, if they are not the default.

    Of those of Kafka Streams that is the cache, under any of its names, where windows are final (rule O9.4).

    Raises:
        PropertyError: the size of the cache is not a number of bytes.
    """
    found = {
        key: value
        for key, value in sorted(config.overrides.items())
        if key.startswith("ksql.") and not key.startswith((_LOGGING, STREAMS_PREFIX))
    }
    if any(map(_is_final, plan.physical_plan.steps())) and not has_cache(config):
        found[CACHE_SIZES[-1]] = "0"
    return found


def document_of(query: PersistentQuery, plan: QueryPlan) -> dict[str, object]:
    """Return a plan as JSON, in the form of the manifest."""
    return encode_statement(StatementPlan(statement_text=query.statement_text, query_plan=plan))


def order(queries: Sequence[NamedQuery]) -> list[NamedQuery]:
    """Sort queries so that each comes after those that write its sources, unless there is a cycle."""
    found: list[NamedQuery] = []
    visited: set[str] = set()

    def visit(named: NamedQuery) -> None:
        if named.name not in visited:
            visited.add(named.name)
            for other in queries:
                if other.query.plan.sink in named.query.plan.sources:
                    visit(other)
            found.append(named)

    for named in queries:
        visit(named)
    return found


def _changes(before: QueryPlan, after: QueryPlan) -> Iterator[object]:
    left, right = (PlanFile((StatementPlan(statement_text="", query_plan=plan),)) for plan in (before, after))
    yield from diff_plans(left, right)


def _is_final(step: Step) -> bool:
    if not isinstance(step, StreamWindowedAggregateV1):
        return False
    windows = step.window_expression
    return windows.emit is Emit.FINAL and not isinstance(windows.window, SessionWindow)


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]


def _listed(changes: Sequence[str]) -> str:
    more = f"\nand {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return "\n".join(["", *changes[:_SHOWN]]) + more
