"""A part of a plan with what the next part needs to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kestrel_sql.errors import StatementError
from kestrel_sql.plan.schemas import scope_of, step_schema
from kestrel_sql.plan.step import Formats, Step, WindowInfo
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, NullLiteral
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import SqlType, contains_map, quote


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows of a step; `formats` are those of its internal topics, `window` that of its key."""

    step: Step
    schema: Schema
    kind: SourceKind
    formats: Formats
    window: WindowInfo | None

    @property
    def is_table(self) -> bool:
        """Whether the rows are the versions of a table's rows."""
        return self.kind is SourceKind.TABLE

    @property
    def scope(self) -> Mapping[str, SqlType]:
        """The columns that expressions over the rows see."""
        return scope_of(self.schema)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return tuple(column.name for column in self.schema.key)

    def then(self, step: Step, types: Types) -> Relation:
        """The rows of `step`, which reads this relation's step."""
        return replace(self, step=step, schema=step_schema(step, [self.schema], types.of))

    def joined(self, right: Relation, step: Step, types: Types, *, kind: SourceKind) -> Relation:
        """The rows of a join `step` of this relation with `right`."""
        schema = step_schema(step, [self.schema, right.schema], types.of)
        check_key(schema.key)
        return replace(self, step=step, schema=schema, kind=kind)

    def is_keyed_by(self, expressions: tuple[Expression, ...]) -> bool:
        """Whether the key is exactly the one column that is the only expression; keys of several columns are always made anew."""
        if all(isinstance(expression, NullLiteral) for expression in expressions):
            return not self.schema.key
        return (
            len(expressions) == 1 and isinstance(expressions[0], ColumnRef) and (expressions[0].name,) == self.key_names
        )


def check_key(key: tuple[Column, ...]) -> None:
    """Refuse maps in a key.

    Raises:
        StatementError: names the column and its type.
    """
    for column in key:
        if contains_map(column.type):
            raise StatementError(
                "Map keys, including types that contain maps, are not supported as they may lead to unexpected behavior due to "
                f"inconsistent serialization. Key column name: {quote(column.name)}. Column type: {column.type}. "
                "See https://github.com/confluentinc/ksql/issues/6621 for more."
            )
