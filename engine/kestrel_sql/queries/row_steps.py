"""Runs steps without state over the rows that a pull query reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kestrel_sql.dataflow.build import BUILDERS
from kestrel_sql.dataflow.graph import Graph, GraphQuery
from kestrel_sql.dataflow.relation import KeyCodec, Relation
from kestrel_sql.dataflow.rows import Entry, Listed, Part, Rows
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.step import FormatInfo, Step
from kestrel_sql.topics.records import LogEntry
from kestrel_sql.types.schema import Schema

RowValues = dict[str, Any]
"""The value columns of a row, by name."""


class _Entries(msgspec.Struct, frozen=True):
    """Takes entries of the processing log, which here are about no record."""

    found: list[LogEntry]

    def add(self, rows: Rows, at: int, entry: Entry) -> None:
        self.found.append(LogEntry(kind=entry.kind, logger=entry.logger, message=entry.message))


class RowSteps:
    """Steps over rows by column name; those of tables, too, whose rows then replace none."""

    def __init__(
        self,
        query_id: str,
        functions: Registry,
        settings: Mapping[str, str],
        log: list[LogEntry],
        steps: Sequence[Step],
    ) -> None:
        """Take the steps in order; entries go to `log` (rules E8).

        Raises:
            StatementError: an expression has a type error.
        """
        self._entries = _Entries(log)
        query = GraphQuery(
            graph=Graph(functions), query_id=query_id, settings=settings, functions=functions, serde=lambda spec: spec
        )
        self._chain = None
        if steps:
            facts = Relation(
                schema=_schema_before(steps[0], functions), key_codec=KeyCodec(format=FormatInfo("KAFKA")), has_old=True
            )
            relation = query.graph.new_relation(facts, 0)
            for step in steps:
                relation = BUILDERS[type(step)](step, query, relation)
            self._chain = query.graph.stages[0][relation.number]

    def __call__(self, values: Sequence[RowValues]) -> list[tuple[int, RowValues]]:
        """Return the rows after the steps, each with the index of the row that it comes from."""
        if self._chain is None:
            return list(enumerate(values))
        schema, size = self._chain.entry.schema, len(values)
        rows = Rows(
            key=Part.nothing(size, len(schema.key)),
            value=Part([Listed([row.get(column.name) for row in values]) for column in schema.value], size),
            old=Part.nothing(size, len(schema.value)),
            times=Listed([0] * size),
            headers=Listed([()] * size),
            origin=None,
            at=range(size),
        )
        for apply in self._chain.steps:
            if rows.size:
                rows = apply(self._entries, rows)
        if not rows.size:
            return []
        names = [column.name for column in self._chain.end.schema.value]
        found = [dict(zip(names, row or (), strict=True)) for row in rows.value.rows()]
        return list(zip(rows.at, found, strict=True))


def _schema_before(step: Step, functions: Registry) -> Schema:
    (source,) = step.upstream
    return source.result_schema(lambda expression, scope: bind(expression, scope, functions).type)
