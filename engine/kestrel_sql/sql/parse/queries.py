"""Builds nodes of queries and windows; lark calls the method named like the reduced grammar rule."""

from __future__ import annotations

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.expressions import ExpressionRules, plural
from kestrel_sql.sql.parse.spans import Children, Part, child_span, cover, node, nodes, part, parts

_JOINS = {"INNER": s.JoinType.INNER, "LEFT": s.JoinType.LEFT, "RIGHT": s.JoinType.RIGHT, "FULL": s.JoinType.OUTER}
_MAX_MILLIS = 2**63 - 1


class QueryRules(ExpressionRules):
    """SELECT and its clauses."""

    select_plain = node(s.SelectExpression, 0)  # `e`
    select_aliased = aliased_expression = node(s.SelectExpression, 0, -1)  # `e [AS] a`
    select_struct_all = node(s.SelectStructAll, 0)  # `e->*`
    select_qualified_all = node(s.SelectAll, 0)  # `s.*`
    select_all = node(s.SelectAll)  # `*`
    where = part("where", 1)  # `WHERE e`
    having = part("having", 1)  # `HAVING e`
    group_by = part("group_by", 2)  # `GROUP BY …`
    partition_by = part("partition_by", 2)  # `PARTITION BY …`
    aliased_source = node(s.AliasedSource, 0, -1)  # `s [[AS] a]`
    grace_period = grace = part("grace", -1)  # `GRACE PERIOD n UNIT`
    retention = part("retention", -1)  # `, RETENTION n UNIT`
    window = part("window", -1)  # `WINDOW …`; the name of the window has no effect

    def query(self, c: Children) -> s.Query:
        """A whole SELECT."""
        clauses = parts(c)
        source, joins = clauses.pop("relation")
        return s.Query(clauses.pop("select_items"), source, joins, span=cover(c), **clauses)

    def select_items(self, c: Children) -> Part:
        """The projection."""
        return Part("select_items", nodes(c), cover(c))

    def expression_list(self, c: Children) -> Part:
        """The expressions of GROUP BY or PARTITION BY, with or without parentheses."""
        return Part("expression_list", nodes(c), cover(c))

    def emit(self, c: Children) -> Part:
        """`EMIT CHANGES`, `EMIT FINAL`."""
        return Part("emit", s.Emit(c[1].type), cover(c))

    def limit(self, c: Children) -> Part:
        """`LIMIT n`."""
        return Part("limit", integer_value(c[1]), cover(c))

    def relation(self, c: Children) -> Part:
        """The source and its joins."""
        return Part("relation", (c[0], tuple(c[1:])), cover(c))

    def join(self, c: Children) -> s.Join:
        """One JOIN."""
        source = next(child for child in c if isinstance(child, s.AliasedSource))
        within = next((child for child in c if isinstance(child, s.Within)), None)
        return s.Join(_JOINS.get(c[0].type, s.JoinType.INNER), source, c[-1], within, span=cover(c))

    def within_same(self, c: Children) -> s.Within:
        """`WITHIN n UNIT`."""
        return s.Within(c[1], c[1], parts(c).get("grace"), span=cover(c))

    def within_before_after(self, c: Children) -> s.Within:
        """`WITHIN (n UNIT, n UNIT)`."""
        return s.Within(c[2], c[4], parts(c).get("grace"), span=cover(c))

    def tumbling(self, c: Children) -> s.TumblingWindow:
        """`TUMBLING (…)`."""
        return s.TumblingWindow(*_spans(c), **parts(c), span=cover(c))

    def hopping(self, c: Children) -> s.HoppingWindow:
        """`HOPPING (…)`."""
        return s.HoppingWindow(*_spans(c), **parts(c), span=cover(c))

    def session(self, c: Children) -> s.SessionWindow:
        """`SESSION (…)`."""
        return s.SessionWindow(*_spans(c), **parts(c), span=cover(c))

    def time_span(self, c: Children) -> s.TimeSpan:
        """`n UNIT`."""
        span = s.TimeSpan(integer_value(c[0]), plural(c[1]), span=cover(c))
        if span.millis > _MAX_MILLIS:
            raise SqlSyntaxError(
                f"{span.value} {span.unit} is too long: the duration in milliseconds must fit into a BIGINT",
                span=span.span,
            )
        return span


def integer_value(number: e.Literal) -> int:
    """Return the value of an integer literal.

    Raises:
        SqlSyntaxError: the literal has a fraction or an exponent.
    """
    if isinstance(number, e.IntegerLiteral):
        return number.value
    span = child_span(number)
    raise SqlSyntaxError(
        f"Failed to prepare statement: line {span.line}:{span.column}: an integer is needed", span=span
    )


def _spans(c: Children) -> tuple[s.TimeSpan, ...]:
    return tuple(child for child in c if isinstance(child, s.TimeSpan))
