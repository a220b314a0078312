"""Grammar rules of queries and windows to nodes; a method per rule, called by lark as it reduces."""

from __future__ import annotations

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.expressions import ExpressionRules, plural
from kestrel_sql.sql.parse.spans import Children, Part, cover, nodes, parts, place

_JOINS = {"INNER": s.JoinType.INNER, "LEFT": s.JoinType.LEFT, "RIGHT": s.JoinType.RIGHT, "FULL": s.JoinType.OUTER}
_MOST_MILLIS = 2**63 - 1


class QueryRules(ExpressionRules):
    """SELECT and its clauses."""

    def query(self, c: Children) -> s.Query:
        """A whole SELECT."""
        found = parts(c)
        source, joins = found.pop("relation")
        return s.Query(found.pop("select_items"), source, joins, span=cover(c), **found)

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
        """`e AS a`, as plans write select items."""
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
        """What GROUP BY and PARTITION BY list, with or without parentheses."""
        return Part("expression_list", nodes(c), cover(c))

    def emit(self, c: Children) -> Part:
        """`EMIT CHANGES`, `EMIT FINAL`."""
        return Part("emit", s.Emit(c[1].type), cover(c))

    def limit(self, c: Children) -> Part:
        """`LIMIT n`."""
        return Part("limit", whole(c[1]), cover(c))

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

    def within_sides(self, c: Children) -> s.Within:
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
        """`WINDOW …`; a name of the window means nothing."""
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
        span = s.TimeSpan(whole(c[0]), plural(c[1]), span=cover(c))
        if span.millis > _MOST_MILLIS:
            raise SqlSyntaxError(
                f"{span.value} {span.unit} are too long: the milliseconds must fit into a BIGINT", span=span.span
            )
        return span


def whole(number: e.Literal) -> int:
    """Read a number that must be whole.

    Raises:
        SqlSyntaxError: it has a fraction or an exponent.
    """
    if isinstance(number, e.IntegerLiteral):
        return number.value
    where = place(number)
    raise SqlSyntaxError(
        f"Failed to prepare statement: line {where.line}:{where.column}: a whole number is needed", span=where
    )


def _spans(c: Children) -> tuple[s.TimeSpan, ...]:
    return tuple(child for child in c if isinstance(child, s.TimeSpan))
