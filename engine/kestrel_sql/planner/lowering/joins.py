"""Builds the steps of joins: re-keys the sides, chooses the key format and names the key of the result."""

from __future__ import annotations

import msgspec

from kestrel_sql.errors import StatementError
from kestrel_sql.formats.properties import SCHEMA_ID
from kestrel_sql.plan.step import FormatInfo, SelectItem, WindowInfo
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1
from kestrel_sql.planner.analysis.analyze import Analysis
from kestrel_sql.planner.analysis.join_criteria import (
    Joined,
    equal_expressions,
    is_foreign_key,
    is_key,
    viable_keys,
)
from kestrel_sql.planner.analysis.join_names import prefixed
from kestrel_sql.planner.analysis.join_rules import check_join
from kestrel_sql.planner.analysis.scope import QuerySource, unqualified
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.lowering.projection import select
from kestrel_sql.planner.lowering.relation import Relation
from kestrel_sql.planner.lowering.single_source import infers_schema, read, rekeyed
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression
from kestrel_sql.sql.nodes.statements import SourceKind, Within


class KeyFormat(msgspec.Struct, frozen=True):
    """The key format that both sides of a join share."""

    info: FormatInfo
    window: WindowInfo | None = None


def join_sources(analysis: Analysis, types: Types) -> Relation:
    """Join the sources of a query from left to right.

    Raises:
        StatementError: a join breaks one of rules L9.
    """
    lowering = _Lowering(analysis, types)
    lowering.check()
    return lowering.joined(len(analysis.joins), "", None)


def key_name(analysis: Analysis, joins: tuple[Joined, ...]) -> str:
    """Return the name of the result's key: the first viable column, if possible a selected one, else synthetic."""
    viable = viable_keys(joins)
    if not viable:
        return analysis.scope.synthetic_key()
    chosen = next((column for column in viable if analysis.selects(column)), viable[0])
    return prefixed(chosen.qualifier or "", chosen.name)


class _Lowering(msgspec.Struct, frozen=True):
    analysis: Analysis
    types: Types

    def check(self) -> None:
        """Check all joins in the order of the text."""
        for depth, join in enumerate(self.analysis.joins, 1):
            check_join(
                join,
                left_is_table=self.analysis.scope.sources[0].is_table,
                foreign=self._is_foreign(depth),
                keyed=self._is_keyed(depth),
                types=self.types,
            )

    def joined(self, depth: int, prefix: str, required: KeyFormat | None) -> Relation:
        """Build the first `depth` joins; `prefix` begins the query context of their steps."""
        joins = self.analysis.joins[:depth]
        key_format = required or self._preferred(depth) or self._default(depth)
        left = self._left(depth, prefix, key_format)
        right = self._right(depth, prefix, key_format)
        return self._join(joins, left, right, f"{prefix}Join")

    def _left(self, depth: int, prefix: str, key_format: KeyFormat) -> Relation:
        join = self.analysis.joins[depth - 1]
        if depth == 1:
            source = self.analysis.scope.sources[0]
            if self._is_foreign(depth):
                return self._prefixed(
                    source, read(source.source, f"KafkaTopic_{prefix}Left/Source", self.types), f"{prefix}Left"
                )
            return self._leaf(source, join.left_on, f"{prefix}Left", key_format)
        if self._is_keyed(depth):
            return self.joined(depth - 1, f"{prefix}L_", key_format)
        result = self.joined(depth - 1, f"{prefix}L_", None)
        criterion = self.analysis.scope.plain(join.left_on)
        if result.is_table:
            return result
        return rekeyed(result, (criterion,), f"{prefix}LeftSourceKeyed", self.types, key_format=key_format.info)

    def _right(self, depth: int, prefix: str, key_format: KeyFormat) -> Relation:
        join = self.analysis.joins[depth - 1]
        info = join.right.source.formats.key_format
        infer = infers_schema(info) and infers_schema(key_format.info)
        if self._is_foreign(depth) and (not infer or info.property(SCHEMA_ID)):
            # The sides of a foreign-key join may differ in key format, unless both formats infer schemas.
            relation = read(join.right.source, f"KafkaTopic_{prefix}Right/Source", self.types)
            return self._prefixed(join.right, relation, f"{prefix}Right")
        return self._leaf(join.right, join.right_on, f"{prefix}Right", key_format)

    def _leaf(self, source: QuerySource, criterion: Expression, side: str, key_format: KeyFormat) -> Relation:
        relation = read(source.source, f"KafkaTopic_{side}/Source", self.types)
        expression = unqualified(criterion)
        if not (relation.is_table and not relation.is_keyed_by((expression,))):
            relation = rekeyed(
                relation,
                (expression,),
                f"{side}SourceKeyed",
                self.types,
                key_format=key_format.info,
                format_changes=key_format != KeyFormat(relation.formats.key_format, relation.window),
                forced=infers_schema(key_format.info),
            )
        return self._prefixed(source, relation, side)

    def _prefixed(self, source: QuerySource, relation: Relation, side: str) -> Relation:
        items = tuple(SelectItem(ColumnRef(c.name), prefixed(source.alias, c.name)) for c in relation.schema.value)
        names = tuple(prefixed(source.alias, name) for name in relation.key_names)
        return select(relation, names, items, f"PrependAlias{side}", self.types)

    def _is_foreign(self, depth: int) -> bool:
        return depth == 1 and is_foreign_key(self.analysis.joins[0])

    def _is_keyed(self, depth: int) -> bool:
        """Whether the left side of a join has the criterion as its key."""
        join = self.analysis.joins[depth - 1]
        if depth == 1:
            return is_key(self.analysis.scope.sources[0], join.left_on)
        return join.left_on in equal_expressions(self.analysis.joins[: depth - 1])

    def _preferred(self, depth: int) -> KeyFormat | None:
        """The key format of the left side if the join does not re-key it, else that of the right side likewise."""
        join = self.analysis.joins[depth - 1]
        left = self._preferred_left(depth)
        return left or _own_format(join.right, join.right_on)

    def _preferred_left(self, depth: int) -> KeyFormat | None:
        join = self.analysis.joins[depth - 1]
        if depth == 1:
            source = self.analysis.scope.sources[0]
            return _format_of(source) if self._is_foreign(1) else _own_format(source, join.left_on)
        if self._is_keyed(depth):
            return self._preferred(depth - 1)
        return None

    def _default(self, depth: int) -> KeyFormat:
        for source in self.analysis.scope.sources[: depth + 1]:
            if source.source.formats.key_format.format != "NONE":
                return KeyFormat(source.source.formats.key_format)
        name = self.types.config.default_key_format
        if name is None:
            raise StatementError(
                "The join needs a key format. Set one via the 'ksql.persistence.default.format.key' config."
            )
        return KeyFormat(FormatInfo(name))

    def _join(self, joins: tuple[Joined, ...], left: Relation, right: Relation, context: str) -> Relation:
        join = joins[-1]
        name = key_name(self.analysis, joins)
        step: StreamStreamJoinV1 | StreamTableJoinV1 | TableTableJoinV1 | FkTableTableJoinV1
        if left.is_table and self._is_foreign(len(joins)):
            step = FkTableTableJoinV1(
                query_context=context,
                join_type=join.type,
                left_join_expression=self.analysis.scope.plain(join.left_on),
                formats=left.formats,
                left_source=left.step,
                right_source=right.step,
            )
        elif left.is_table:
            step = TableTableJoinV1(
                query_context=context,
                join_type=join.type,
                key_name=name,
                left_source=left.step,
                right_source=right.step,
            )
        elif right.is_table:
            step = StreamTableJoinV1(
                query_context=context,
                join_type=join.type,
                key_name=name,
                internal_formats=left.formats,
                left_source=left.step,
                right_source=right.step,
            )
        else:
            if join.within is None:
                raise ValueError("a stream-stream join needs WITHIN")
            step = _stream_stream(join, join.within, name, left, right, context)
        kind = SourceKind.TABLE if left.is_table else SourceKind.STREAM
        return left.joined(right, step, self.types, kind=kind)


def _stream_stream(
    join: Joined, within: Within, name: str, left: Relation, right: Relation, context: str
) -> StreamStreamJoinV1:
    return StreamStreamJoinV1(
        query_context=context,
        join_type=join.type,
        key_name=name,
        left_internal_formats=left.formats,
        right_internal_formats=right.formats,
        left_source=left.step,
        right_source=right.step,
        before_ms=within.before.millis,
        after_ms=within.after.millis,
        grace_ms=None if within.grace is None else within.grace.millis,
    )


def _format_of(source: QuerySource) -> KeyFormat:
    return KeyFormat(source.source.formats.key_format, source.source.window)


def _own_format(source: QuerySource, criterion: Expression) -> KeyFormat | None:
    return _format_of(source) if is_key(source, criterion) else None
