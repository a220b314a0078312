"""Defines a relation: the result of a step while a plan is built."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.plan.step import Formats, Step, WindowInfo
from kestrel_sql.planner.ddl.columns import check_key_types
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, NullLiteral
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import SqlType


class Relation(msgspec.Struct, frozen=True):
    """The result of a step.

    Attributes:
        step: the step.
        schema: the schema of its rows.
        kind: stream or table.
        formats: the formats of internal topics that hold its rows.
        window: the window of its key.
    """

    step: Step
    schema: Schema
    kind: SourceKind
    formats: Formats
    window: WindowInfo | None

    @property
    def is_table(self) -> bool:
        """Whether the rows are changes of a table."""
        return self.kind is SourceKind.TABLE

    @property
    def scope(self) -> Mapping[str, SqlType]:
        """The type of each column that expressions over the rows can name."""
        return scope_of(self.schema)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return tuple(column.name for column in self.schema.key)

    def then(self, step: Step, types: Types) -> Relation:
        """Return the result of `step`, which reads this relation's step."""
        return replace(self, step=step, schema=step.schema([self.schema], types.of))

    def joined(self, right: Relation, step: Step, types: Types, *, kind: SourceKind) -> Relation:
        """Return the result of a join `step` of this relation with `right`.

        Raises:
            StatementError: the key contains a MAP.
        """
        schema = step.schema([self.schema, right.schema], types.of)
        check_key_types(schema.key)
        return replace(self, step=step, schema=schema, kind=kind)

    def is_keyed_by(self, expressions: tuple[Expression, ...]) -> bool:
        """Whether the key is the single column in `expressions`, or there is no key and all are NULL.

        False for a key of several columns, which is always built anew.
        """
        if all(isinstance(expression, NullLiteral) for expression in expressions):
            return not self.schema.key
        return (
            len(expressions) == 1 and isinstance(expressions[0], ColumnRef) and (expressions[0].name,) == self.key_names
        )
