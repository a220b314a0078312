"""Builds nodes of queries and windows; lark calls the method named like the reduced grammar rule."""

from __future__ import annotations

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.expressions import ExpressionRules, plural
from kestrel_sql.sql.parse.spans import Children, Part, child_span, cover, nodes, parts

_JOINS = {"INNER": s.JoinType.INNER, "LEFT": s.JoinType.LEFT, "RIGHT": s.JoinType.RIGHT, "FULL": s.JoinType.OUTER}
_MAX_MILLIS = 2**63 - 1


class QueryRules(ExpressionRules):
    """SELECT and its clauses."""

    def query(self, c: Children) -> s.Query:
        """A whole SELECT."""
        clauses = parts(c)
        source, joins = clauses.pop("relation")
        return s.Query(clauses.pop("select_items"), source, joins, span=cover(c), **clauses)

    def select_items(self, c: Children) -> Part:
        """The projection."""
        return Part("select_items", nodes(c), cover(c))

    def select_plain(self, c: Children) -> s.SelectExpression:
        """`e`."""
        return s.SelectExpression(c[0], span=cover(c))

    def select_aliased(self, c: Children) -> s.SelectExpression:
        """`e [AS] a`."""
        return s.SelectExpression(c[0], c[-1].value, span=cover(c))

    def aliased_expression(self, c: Children) -> s.SelectExpression:
        """`e AS a`, a select item of a plan."""
        return self.select_aliased(c)

    def select_struct_all(self, c: Children) -> s.SelectStructAll:
        """`e->*`."""
        return s.SelectStructAll(c[0], span=cover(c))

    def select_qualified_all(self, c: Children) -> s.SelectAll:
        """`s.*`."""
        return s.SelectAll(c[0].value, span=cover(c))

    def select_all(self, c: Children) -> s.SelectAll:
        """`*`."""
        return s.SelectAll(span=cover(c))

    def where(self, c: Children) -> Part:
        """`WHERE e`."""
        return Part("where", c[1], cover(c))

    def having(self, c: Children) -> Part:
        """`HAVING e`."""
        return Part("having", c[1], cover(c))

    def group_by(self, c: Children) -> Part:
        """`GROUP BY …`."""
        return Part("group_by", c[2].value, cover(c))

    def partition_by(self, c: Children) -> Part:
        """`PARTITION BY …`."""
        return Part("partition_by", c[2].value, cover(c))

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

    def aliased_source(self, c: Children) -> s.AliasedSource:
        """`s [[AS] a]`."""
        return s.AliasedSource(c[0].value, c[-1].value, span=cover(c))

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

    def grace_period(self, c: Children) -> Part:
        """`GRACE PERIOD n UNIT`."""
        return Part("grace", c[-1], cover(c))

    def grace(self, c: Children) -> Part:
        """`, GRACE PERIOD n UNIT`."""
        return Part("grace", c[-1], cover(c))

    def retention(self, c: Children) -> Part:
        """`, RETENTION n UNIT`."""
        return Part("retention", c[-1], cover(c))

    def window(self, c: Children) -> Part:
        """`WINDOW …`; the name of the window has no effect."""
        return Part("window", c[-1], cover(c))

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
