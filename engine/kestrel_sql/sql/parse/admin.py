"""Builds nodes of administrative and test statements; lark calls the method named like the reduced grammar rule."""

from __future__ import annotations

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.nodes import admin as a
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.queries import QueryRules, integer_value
from kestrel_sql.sql.parse.spans import NAME, Children, Part, child_span, cover, flag, kinds, names, node, part, parts
from kestrel_sql.sql.parse.tokens import Token


class AdminRules(QueryRules):
    """Statements that do not touch data."""

    from_beginning = flag("from_beginning")  # `FROM BEGINNING`
    undefine_variable = node(s.UndefineVariable, 1)  # `UNDEFINE n`
    not_exists = flag("not_exists")  # `NOT EXISTS`
    subject = part("subject", 1)  # `SUBJECT s`
    timeout = part("timeout", 1)  # `TIMEOUT n UNIT`

    def list_objects(self, c: Children) -> a.ListObjects:
        """`LIST …`, `SHOW …`."""
        words = [token.type for token in c[1:]]
        extended = words[-1] == "EXTENDED"
        return a.ListObjects(" ".join(words[: -1 if extended else None]), extended, span=cover(c))

    def describe_source(self, c: Children) -> a.Describe:
        """`DESCRIBE s`; unquoted TABLES means all tables."""
        extended = "EXTENDED" in kinds(c)
        # The span of a quoted name includes its quotes, so it is longer than the value.
        quoted = child_span(c[1]).end_column - child_span(c[1]).column > len(c[1].value)
        if c[1].value == "TABLES" and not quoted:
            return a.Describe("TABLES", None, extended, span=cover(c))
        return a.Describe("SOURCE", c[1].value, extended, span=cover(c))

    def describe_streams(self, c: Children) -> a.Describe:
        """`DESCRIBE STREAMS`."""
        return a.Describe("STREAMS", None, "EXTENDED" in kinds(c), span=cover(c))

    def describe_other(self, c: Children) -> a.Describe:
        """`DESCRIBE FUNCTION|CONNECTOR n`."""
        return a.Describe(c[1].type, c[2].value, span=cover(c))

    def print_topic(self, c: Children) -> a.PrintTopic:
        """`PRINT topic`."""
        clauses = parts(c)
        return a.PrintTopic(
            clauses["resource"], "from_beginning" in clauses, clauses.get("every"), clauses.get("limit"), span=cover(c)
        )

    def every(self, c: Children) -> Part:
        """`INTERVAL n`, `SAMPLE n`."""
        return Part("every", integer_value(c[1]), cover(c))

    def control_query(self, c: Children) -> a.ControlQuery:
        """`TERMINATE`, `PAUSE` or `RESUME` of a query or of ALL."""
        # Ids of queries ignore case, also in quotes.
        return a.ControlQuery(c[0].type, c[1].value.upper() if c[1].type == NAME else None, span=cover(c))

    def explain(self, c: Children) -> a.Explain:
        """`EXPLAIN`."""
        return a.Explain(c[1].value.upper() if isinstance(c[1], Token) else c[1], span=cover(c))

    def set_property(self, c: Children) -> s.SetProperty:
        """`SET 'k' = 'v'`."""
        return s.SetProperty(self.text_of(c[1]), self.text_of(c[3]), span=cover(c))

    def unset_property(self, c: Children) -> s.UnsetProperty:
        """`UNSET 'k'`."""
        return s.UnsetProperty(self.text_of(c[1]), span=cover(c))

    def alter_system(self, c: Children) -> s.AlterSystem:
        """`ALTER SYSTEM 'k' = 'v'`."""
        return s.AlterSystem(self.text_of(c[2]), self.text_of(c[4]), span=cover(c))

    def define_variable(self, c: Children) -> s.DefineVariable:
        """`DEFINE n = 'v'`."""
        return s.DefineVariable(c[1].value, self.text_of(c[3]), span=cover(c))

    def create_connector(self, c: Children) -> a.CreateConnector:
        """`CREATE SOURCE|SINK CONNECTOR`."""
        clauses = parts(c)
        return a.CreateConnector(
            c[1].type, names(c)[0], clauses["properties"], "if_not_exists" in clauses, span=cover(c)
        )

    def drop_connector(self, c: Children) -> a.DropConnector:
        """`DROP CONNECTOR`."""
        return a.DropConnector(c[-1].value, "if_exists" in parts(c), span=cover(c))

    def assert_topic(self, c: Children) -> a.AssertTopic:
        """`ASSERT [NOT EXISTS] TOPIC`."""
        clauses = parts(c)
        exists = "not_exists" not in clauses
        return a.AssertTopic(
            clauses["resource"], clauses.get("properties", ()), clauses.get("timeout"), exists, span=cover(c)
        )

    def assert_schema(self, c: Children) -> a.AssertSchema:
        """`ASSERT [NOT EXISTS] SCHEMA`."""
        clauses = parts(c)
        exists = "not_exists" not in clauses
        return a.AssertSchema(
            clauses.get("subject"), clauses.get("schema_id"), clauses.get("timeout"), exists, span=cover(c)
        )

    def schema_id(self, c: Children) -> Part:
        """`ID n`."""
        if not isinstance(c[1], e.IntegerLiteral):
            raise SqlSyntaxError("ID must be an integer", span=cover(c))
        return Part("schema_id", c[1].value, cover(c))

    def assert_values(self, c: Children) -> a.AssertValues:
        """`ASSERT VALUES`."""
        clauses = parts(c)
        return a.AssertValues(names(c)[0], clauses.get("names", ()), clauses["tuple"], span=cover(c))

    def assert_null_values(self, c: Children) -> a.AssertNullValues:
        """`ASSERT NULL VALUES`."""
        clauses = parts(c)
        return a.AssertNullValues(names(c)[0], clauses.get("names", ()), clauses["tuple"], span=cover(c))

    def assert_source(self, c: Children) -> a.AssertSource:
        """`ASSERT STREAM|TABLE`."""
        clauses = parts(c)
        kind = s.SourceKind(c[1].type)
        return a.AssertSource(
            kind, names(c)[0], clauses.get("elements", ()), clauses.get("properties", ()), span=cover(c)
        )

    def run_script(self, c: Children) -> a.RunScript:
        """`RUN SCRIPT 'path'`."""
        return a.RunScript(self.text_of(c[2]), span=cover(c))
