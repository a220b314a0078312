"""A query while its steps are built: its settings, and what they need to bind expressions and to find serdes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kestrel_sql.dataflow.log_entries import ROWS_INCLUDE
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.step import Formats, Step
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import SqlType


class Query(msgspec.Struct, kw_only=True):
    """The query that steps belong to.

    Attributes:
        query_id: its id.
        settings: the properties that it was planned with.
        functions: the functions that its expressions call.
        serde: completes a spec with the schemas of the registry.
        unread: the step whose old rows no other step reads (`kestrel_sql.dataflow.build`).
    """

    query_id: str
    settings: Mapping[str, str]
    functions: Registry
    serde: Callable[[SerdeSpec], SerdeSpec]
    unread: Step | None = None

    def logger(self, step: Step) -> str:
        """The logger of a step in the processing log (rules E8)."""
        return f"processing.{self.query_id}.{step.query_context.replace('/', '.')}"

    def bind(self, expression: Expression, scope: Mapping[str, SqlType]) -> Bound:
        """Bind an expression to the columns of a scope, and type it."""
        return bind(expression, scope, self.functions)

    def schema(self, step: Step, *inputs: Relation) -> Schema:
        """The schema of a step over built inputs."""
        return step.schema([each.schema for each in inputs], lambda node, scope: self.bind(node, scope).type)

    def flag(self, name: str, default: str = "true") -> bool:
        """Return a boolean setting."""
        return self.settings.get(name, default).lower() == "true"

    @property
    def logs_rows(self) -> bool:
        """Whether entries of the processing log contain their row."""
        return self.flag(ROWS_INCLUDE, "false")

    @property
    def function_settings(self) -> Mapping[str, str]:
        """The settings that functions see."""
        return {name: self.settings[name] for name in self.settings if name.startswith("ksql.functions.")}

    def specs(self, formats: Formats, relation: Relation, values: tuple[Column, ...]) -> tuple[SerdeSpec, SerdeSpec]:
        """Return the key and value specs of a topic, completed with the schemas of the registry."""
        key = SerdeSpec(formats.key_format, relation.schema.key, formats.key_features, Side.KEY, relation.topic)
        value = SerdeSpec(formats.value_format, values, formats.value_features, Side.VALUE, relation.topic)
        return self.serde(key), self.serde(value)
