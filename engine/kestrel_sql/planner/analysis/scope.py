"""Resolves column references to the sources of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.errors import (
    Span,
    StatementError,
    UnknownColumnError,
    UnknownSourceError,
    column_hint,
    other_case,
    position,
)
from kestrel_sql.plan.column_names import AliasGenerator
from kestrel_sql.plan.schemas import source_columns
from kestrel_sql.planner.analysis.join_names import SYNTHETIC_KEY, prefixed
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import (
    ColumnRef,
    Comparison,
    ComparisonOp,
    Expression,
    Not,
)
from kestrel_sql.sql.nodes.statements import AliasedSource, Query, SourceKind
from kestrel_sql.sql.nodes.walk import column_refs, rewrite
from kestrel_sql.types.schema import PSEUDO_COLUMNS, SYSTEM_NAMES, WINDOW_BOUNDS, Schema
from kestrel_sql.types.sql_types import SqlType

BOUND_NAMES = frozenset(column.name for column in WINDOW_BOUNDS)
_SINGULAR_UNITS = frozenset({"DAY", "HOUR", "MINUTE", "SECOND"})
PSEUDO_VERSION = max(PSEUDO_COLUMNS)


class QuerySource(msgspec.Struct, frozen=True):
    """A source of FROM under its alias; `rows` is its schema with the columns that expressions can name."""

    alias: str
    source: Source
    rows: Schema

    @property
    def is_table(self) -> bool:
        """Whether the source is a table."""
        return self.source.kind is SourceKind.TABLE

    def has(self, name: str) -> bool:
        """Whether the rows have the column `name`, system columns included."""
        return any(column.name == name for column in self.rows.value)

    def star(self) -> Iterator[str]:
        """The columns that `*` expands to: key, window bounds, then the others, without other system columns."""
        return star(self.rows)


def star(rows: Schema) -> Iterator[str]:
    """Yield the columns that `*` expands to: key, window bounds, then the others (rules N5)."""
    keys = [column.name for column in rows.key]
    yield from keys
    names = [column.name for column in rows.value]
    yield from (name for name in names if name in BOUND_NAMES and name not in keys)
    yield from (name for name in names if name not in SYSTEM_NAMES and name not in keys)


class Scope(msgspec.Struct, frozen=True):
    """The sources of one query in FROM order."""

    sources: tuple[QuerySource, ...]

    @property
    def is_join(self) -> bool:
        """Whether there is more than one source."""
        return len(self.sources) > 1

    def source(self, alias: str, span: Span | None = None) -> QuerySource:
        """Return the source with this alias.

        Raises:
            UnknownSourceError: no source has it.
        """
        for source in self.sources:
            if source.alias == alias:
                return source
        known = ", ".join(source.alias for source in self.sources)
        raise UnknownSourceError(
            f"Failed to prepare statement: '{alias}' is not a valid stream/table name or alias.",
            span=span,
            hint=f"the sources of this query are {known}",
        )

    def qualify(self, expression: Expression) -> Expression:
        """Qualify every column reference with the alias of its source; unknown columns stay unqualified.

        Raises:
            StatementError: several sources have the column.
            UnknownSourceError: no source has the alias of a qualified reference.
        """
        for node in column_refs(expression):
            if node.qualifier is not None:
                self.source(node.qualifier, node.span)
        return rewrite(expression, self._qualified)

    def _qualified(self, node: Expression) -> Expression | None:
        if not isinstance(node, ColumnRef) or node.qualifier is not None:
            return None
        owners = [source.alias for source in self.sources if source.has(node.name)]
        if len(owners) > 1:
            candidates = " or ".join(f"{owner}.{node.name}" for owner in sorted(owners))
            raise StatementError(
                f"Exception while preparing statement: {position(node.span)}Column '{node.name}' is ambiguous. "
                f"Could be {candidates}.",
                span=node.span,
            )
        return replace(node, qualifier=owners[0]) if owners else node

    def check(self, expression: Expression, clause: str, *, extra: frozenset[str] = frozenset()) -> None:
        """Check that every column reference names a column of a source, or one of `extra`.

        Raises:
            UnknownColumnError: one does not; the message names the clause and the column.
        """
        for node in column_refs(expression):
            owner = next((s for s in self.sources if s.alias == node.qualifier), None)
            if (owner is not None and owner.has(node.name)) or node.name in extra:
                continue
            written = f"{node.qualifier}.{node.name}" if node.qualifier else node.name
            note = (
                f" '{node.name}' must be a column in the source schema since PARTITION BY is applied on the input."
                if clause == "PARTITION BY"
                else ""
            )
            known = tuple(self._names(owner))
            message = f"{position(node.span)}{clause} column '{written}' cannot be resolved.{note}"
            unit = f"as a unit of time, write {node.name}S" if node.name in _SINGULAR_UNITS else None
            raise UnknownColumnError(
                message + other_case(node.name, known, "column"),
                span=node.span,
                hint=unit or column_hint(node.name, known),
            )

    def _names(self, owner: QuerySource | None) -> Iterator[str]:
        """The columns to suggest: those of `owner`, or of all sources."""
        return (column.name for source in ((owner,) if owner else self.sources) for column in source.rows.value)

    def clashes(self, name: str) -> bool:
        """Whether more than one source has the column `name`."""
        return sum(source.has(name) for source in self.sources) > 1

    def written(self, expression: Expression) -> str:
        """Return the text of an expression with the qualifiers that `plain` takes away, for messages."""
        owners = {
            prefixed(s.alias, c.name) if self.is_join else c.name: (c.name, s.alias)
            for s in self.sources
            for c in s.rows.value
        }

        def qualified(node: Expression) -> Expression | None:
            return ColumnRef(*owners[node.name]) if isinstance(node, ColumnRef) and node.name in owners else None

        return format_expression(rewrite(expression, qualified))

    def as_written(self, expression: Expression) -> Expression:
        """Return an expression as messages write it; only columns of a join keep their qualifiers."""
        return expression if self.is_join else unqualified(expression)

    def columns_as_written(self) -> Mapping[str, SqlType]:
        """The type of every column of the sources, by its name in `as_written` expressions."""
        return {
            format_expression(ColumnRef(column.name, source.alias)) if self.is_join else column.name: column.type
            for source in self.sources
            for column in source.rows.value
        }

    def readable(self, expression: Expression) -> str:
        """Return the text of an expression for messages; columns of a join are qualified, not named as in its plan."""
        return self.written(expression) if self.is_join else format_expression(expression)

    def plain(self, expression: Expression) -> Expression:
        """Replace qualified references by the column names in the plan of this query."""
        return rewrite(expression, self._plain)

    def _plain(self, node: Expression) -> Expression | None:
        if isinstance(node, ColumnRef) and node.qualifier is not None:
            name = prefixed(node.qualifier, node.name) if self.is_join else node.name
            return ColumnRef(name, span=node.span)
        if isinstance(node, Comparison) and node.op is ComparisonOp.IS_NOT_DISTINCT_FROM:
            # Plans have no such operator.
            distinct = replace(
                node, op=ComparisonOp.IS_DISTINCT_FROM, left=self.plain(node.left), right=self.plain(node.right)
            )
            return Not(distinct, span=node.span)
        return None

    def star(self, qualifier: str | None = None) -> Iterator[str]:
        """The column names that `*` or `qualifier.*` expands to directly over the sources."""
        sources = self.sources if qualifier is None else (self.source(qualifier),)
        for source in sources:
            yield from (prefixed(source.alias, name) if self.is_join else name for name in source.star())

    def synthetic_key(self) -> str:
        """The name of a join key that no column provides: ROWKEY, with a number if that name is taken."""
        from_sources = AliasGenerator(c.name for s in self.sources for c in s.source.schema.columns)
        return from_sources.unique(SYNTHETIC_KEY)


def unqualified(expression: Expression) -> Expression:
    """Strip the aliases from column references, to use the expression over the rows of one source."""
    return rewrite(
        expression, lambda node: ColumnRef(node.name, span=node.span) if isinstance(node, ColumnRef) else None
    )


def scope_of_query(query: Query, catalog: Catalog) -> Scope:
    """Look up the sources of FROM.

    Raises:
        UnknownSourceError: the catalog does not have one of them.
    """
    items = (query.source, *(join.source for join in query.joins))
    return Scope(tuple(_source(item, catalog) for item in items))


def _source(item: AliasedSource, catalog: Catalog) -> QuerySource:
    source = catalog.sources.get(item.name)
    if source is None:
        raise unknown_source(item.name, catalog, item.span)
    rows = source_columns(source.schema, pseudo_version=PSEUDO_VERSION, windowed=source.window is not None)
    return QuerySource(item.alias, source, rows)


def unknown_source(name: str, catalog: Catalog, span: Span | None) -> StatementError:
    """Make the error for a source of a query that does not exist."""
    return catalog.missing_source(f"{name} does not exist.", name, span)
