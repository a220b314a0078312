"""A case under names of its own, so that nothing that others have on a server or broker has the same name."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases import model
from kestrel_sql.session.session import Session
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.nodes.admin import Statement
from kestrel_sql.sql.nodes.expressions import Cast, Expression
from kestrel_sql.sql.nodes.kafka_source import CreateKafkaSource
from kestrel_sql.sql.nodes.walk import rewrite, rewrite_within
from kestrel_sql.types.sql_types import NamedType, SqlType, with_leaves

_NAMED = (
    s.CreateSource,
    s.CreateAs,
    CreateKafkaSource,
    s.DropSource,
    s.AlterSource,
    s.CreateType,
    s.DropType,
)


class OwnNames(msgspec.Struct, frozen=True):
    """Names with a prefix: of streams, tables and types in upper case, of topics in lower case."""

    prefix: str

    def case(self, case: model.Case) -> model.Case:
        """Return a case whose statements and records have these names; its variables are filled in.

        Raises:
            EngineError: a statement does not parse.
        """
        return replace(
            case,
            statements=tuple(self._texts(case)),
            variables={},
            script=None,
            inputs=tuple(replace(each, topic=self.topic(each.topic)) for each in case.inputs),
            outputs=None
            if case.outputs is None
            else tuple(replace(each, topic=self.topic(each.topic)) for each in case.outputs),
            topics=tuple(replace(each, name=self.topic(each.name)) for each in case.topics),
        )

    def topic(self, name: str) -> str:
        """The name of a topic on the broker."""
        return f"{self.prefix.lower()}{name}"

    def given(self, text: str) -> str:
        """Return a text with the names of the case, for messages and topics."""
        return re.sub(re.escape(self.prefix), "", text, flags=re.IGNORECASE)

    def _texts(self, case: model.Case) -> Sequence[str]:
        session = Session(variables=dict(case.variables))
        texts = []
        for parsed in session.parse("\n".join(case.statements)):
            statement = parsed.statement
            if isinstance(statement, s.SESSION_STATEMENTS):
                session.execute(parsed)
            prefix = str(case.properties.get("ksql.output.topic.name.prefix", ""))
            prefix = session.config.overrides.get("ksql.output.topic.name.prefix", prefix)
            texts.append(format_statement(self._statement(statement, prefix)).rstrip(";") + ";")
        return texts

    def _statement(self, statement: Statement, prefix: str) -> Statement:
        found = rewrite_within(statement, self._part)
        match found:
            case s.CreateAs():
                default = {"KAFKA_TOPIC": f"{prefix}{found.name}"}
                given = {**default, **dict(found.properties)}
                found = replace(found, properties=self._properties(tuple(given.items())))
            case s.CreateSource():
                found = replace(found, properties=self._properties(found.properties))
            case CreateKafkaSource():
                found = replace(found, topic=replace(found.topic, name=self.topic(found.topic.name)))
            case s.CreateType():
                found = replace(found, type=self._type(found.type))
            case s.AlterSource():
                found = replace(found, columns=tuple((name, self._type(kind)) for name, kind in found.columns))
            case s.InsertInto() | s.InsertValues():
                return replace(found, target=f"{self.prefix}{found.target}")
            case _:
                pass
        return replace(found, name=f"{self.prefix}{found.name}") if isinstance(found, _NAMED) else found

    def _properties(self, properties: s.Properties) -> s.Properties:
        return tuple(
            (name, self.topic(value) if name == "KAFKA_TOPIC" and isinstance(value, str) else value)
            for name, value in properties
        )

    def _part(self, node: Expression) -> Expression | None:
        """Rename what stands inside a statement: sources, which keep their alias, and types."""
        found: object = node
        match found:
            case s.AliasedSource(name=name):
                return replace(found, name=f"{self.prefix}{name}")  # type: ignore[return-value]  # rules see all nodes
            case s.Element():
                return replace(found, type=self._type(found.type))  # type: ignore[return-value]
            case Cast():
                return replace(found, operand=rewrite(found.operand, self._part), type=self._type(found.type))
            case _:
                return None

    def _type(self, kind: SqlType) -> SqlType:
        return with_leaves(
            kind, lambda leaf: NamedType(f"{self.prefix}{leaf.name}") if isinstance(leaf, NamedType) else leaf
        )
