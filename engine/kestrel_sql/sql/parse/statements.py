"""Builds nodes of statements on sources and types; lark calls the method named like the reduced grammar rule."""

from __future__ import annotations

from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.kafka_source import KafkaRules
from kestrel_sql.sql.parse.spans import Children, Part, child_span, cover, flag, kinds, names, nodes, parts
from kestrel_sql.sql.parse.tokens import Token


class StatementRules(KafkaRules):
    """Statements that create, insert into, alter and drop; with the inherited rules, the whole grammar."""

    or_replace = flag("or_replace")  # `OR REPLACE`
    if_not_exists = flag("if_not_exists")  # `IF NOT EXISTS`
    if_exists = flag("if_exists")  # `IF EXISTS`
    delete_topic = flag("delete_topic")  # `DELETE TOPIC`

    def create_source(self, c: Children) -> s.CreateSource:
        """`CREATE STREAM|TABLE` over a topic."""
        clauses = parts(c)
        return s.CreateSource(
            source_kind(c),
            names(c)[0],
            clauses.get("elements", ()),
            clauses.get("properties", ()),
            or_replace="or_replace" in clauses,
            if_not_exists="if_not_exists" in clauses,
            is_source="SOURCE" in kinds(c),
            span=cover(c),
        )

    def create_as(self, c: Children) -> s.CreateAs:
        """`CREATE STREAM|TABLE … AS SELECT`."""
        clauses = parts(c)
        return s.CreateAs(
            source_kind(c),
            names(c)[0],
            c[-1],
            clauses.get("properties", ()),
            or_replace="or_replace" in clauses,
            if_not_exists="if_not_exists" in clauses,
            span=cover(c),
        )

    def create_type(self, c: Children) -> s.CreateType:
        """`CREATE TYPE`."""
        return s.CreateType(names(c)[0], c[-1].value, "if_not_exists" in parts(c), span=cover(c))

    def insert_into(self, c: Children) -> s.InsertInto:
        """`INSERT INTO … SELECT`."""
        return s.InsertInto(c[2].value, c[-1], parts(c).get("properties", ()), span=child_span(c[2]))

    def insert_values(self, c: Children) -> s.InsertValues:
        """`INSERT INTO … VALUES`."""
        clauses = parts(c)
        return s.InsertValues(c[2].value, clauses.get("names", ()), clauses["tuple"], span=cover(c))

    def drop_source(self, c: Children) -> s.DropSource:
        """`DROP STREAM|TABLE`."""
        clauses = parts(c)
        return s.DropSource(
            source_kind(c), names(c)[0], "if_exists" in clauses, "delete_topic" in clauses, span=cover(c)
        )

    def drop_type(self, c: Children) -> s.DropType:
        """`DROP TYPE`."""
        return s.DropType(c[-1].value, "if_exists" in parts(c), span=cover(c))

    def alter_source(self, c: Children) -> s.AlterSource:
        """`ALTER STREAM|TABLE`."""
        added = tuple(child.value for child in c if isinstance(child, Part))
        return s.AlterSource(source_kind(c), c[2].value, added, span=cover(c))

    def added_column(self, c: Children) -> Part:
        """`ADD COLUMN name T`."""
        return Part("added_column", (names(c)[0], c[-1].value), cover(c))

    def names(self, c: Children) -> Part:
        """Column names in parentheses."""
        return Part("names", names(c), cover(c))

    def tuple(self, c: Children) -> Part:
        """Values in parentheses."""
        return Part("tuple", nodes(c), cover(c))

    def with_properties(self, c: Children) -> Part:
        """`WITH (…)`; only the names of a connector's properties keep their case."""
        return Part("properties", tuple((name.upper(), value) for name, value in c[1].value), cover(c))

    def properties(self, c: Children) -> Part:
        """Properties in parentheses."""
        return Part("properties", tuple(child.value for child in c if isinstance(child, Part)), cover(c))

    def property(self, c: Children) -> Part:
        """`NAME = literal`."""
        key: Token = c[0]
        name = self.text_of(key) if key.type == "STRING_VALUE" else key.value
        value: s.PropertyValue = getattr(c[2], "value", None)
        return Part("property", (name, value), cover(c))


def source_kind(c: Children) -> s.SourceKind:
    """Return STREAM or TABLE, whichever keyword is among the children."""
    return s.SourceKind.STREAM if "STREAM" in kinds(c) else s.SourceKind.TABLE
