"""Comparisons, which in ksqlDB are false for NULL operands, and LIKE (`spec/language.md` 4.3, 4.5)."""

from __future__ import annotations

from sqlglot import exp

from engine.functions.declaration import Checked
from engine.spark import sqltree as s
from engine.spark.sqltree import Tree
from engine.sql.expressions import ComparisonOp
from engine.types import sql_types as t
from engine.types.sql_types import Array, Map, SqlType, Struct

_KINDS: dict[ComparisonOp, type[exp.Binary]] = {
    ComparisonOp.EQUAL: exp.EQ,
    ComparisonOp.NOT_EQUAL: exp.NEQ,
    ComparisonOp.LESS_THAN: exp.LT,
    ComparisonOp.LESS_THAN_OR_EQUAL: exp.LTE,
    ComparisonOp.GREATER_THAN: exp.GT,
    ComparisonOp.GREATER_THAN_OR_EQUAL: exp.GTE,
}

_SPECIAL = r"([\\.\[\]{}()*+?^$|])"


def compare(op: ComparisonOp, left: Tree, right: Tree, left_type: SqlType | None, right_type: SqlType | None) -> Tree:
    """Compare two values; the result is never NULL."""
    if t.TIMESTAMP in (left_type, right_type) and t.DATE in (left_type, right_type):
        left, right = (_as_instant(x, sql_type) for x, sql_type in ((left, left_type), (right, right_type)))
    left, right = (_comparable(tree, sql_type) for tree, sql_type in ((left, left_type), (right, right_type)))
    if op is ComparisonOp.IS_NOT_DISTINCT_FROM:
        return s.binary(exp.NullSafeEQ, left, right)
    if op is ComparisonOp.IS_DISTINCT_FROM:
        return s.binary(exp.NullSafeNEQ, left, right)
    return s.coalesce_false(s.binary(_KINDS[op], left, right))


def _comparable(value: Tree, sql_type: SqlType | None) -> Tree:
    """Spark compares no maps: compare their entries, ordered by key."""
    if sql_type is None or not t.contains_map(sql_type):
        return value
    match sql_type:
        case Map(_, item):
            x = exp.to_identifier("c")
            part = [exp.Dot(this=x.copy(), expression=exp.to_identifier(name)) for name in ("key", "value")]
            entry = s.named_struct([("key", part[0]), ("value", _comparable(part[1], item))])
            return s.call("sort_array", s.call("transform", s.call("map_entries", value), s.lambda_(["c"], entry)))
        case Array(item):
            return s.call("transform", value, s.lambda_(["a"], _comparable(exp.to_identifier("a"), item)))
        case Struct(fields):
            parts = [(f.name, _comparable(exp.Dot(this=value, expression=exp.to_identifier(f.name, quoted=True)), f.type)) for f in fields]
            return s.if_(s.is_null(value), s.NULL, s.named_struct(parts))
        case _:
            return value


def _as_instant(value: Tree, sql_type: SqlType | None) -> Tree:
    return s.binary(exp.Mul, s.cast(value, t.BIGINT), s.bigint(86_400_000)) if sql_type == t.DATE else value


def like(value: Tree, pattern: Tree, escape: str | None) -> Checked:
    """Match a whole text; `%` is any run and `_` one character, neither a line end."""
    if isinstance(pattern, exp.Literal):
        regex, broken = _literal_pattern(pattern.this, escape)
        return Checked(s.call("rlike", value, s.text(regex)), s.TRUE if broken else None)
    quoted = s.call("regexp_replace", pattern, s.text(_SPECIAL), s.text(r"\\$1"))
    if escape is None:
        body = s.call("replace", s.call("replace", quoted, s.text("%"), s.text(".*")), s.text("_"), s.text("."))
        return Checked(s.call("rlike", value, s.call("concat", s.text("\\A(?:"), body, s.text(")\\z"))))
    literal = s.text("\\" + escape if escape in "\\.[]{}()*+?^$|" else escape)
    marked = quoted
    for wild, code in (("%", "\u0001"), ("_", "\u0002")):
        marked = s.call("replace", marked, s.call("concat", literal, s.text(wild)), s.text(code))
    body = s.call("replace", s.call("replace", marked, s.text("%"), s.text(".*")), s.text("_"), s.text("."))
    for wild, code in (("%", "\u0001"), ("_", "\u0002")):
        body = s.call("replace", body, s.text(code), s.text(wild))
    return Checked(s.call("rlike", value, s.call("concat", s.text("\\A(?:"), body, s.text(")\\z"))))


def _literal_pattern(pattern: str, escape: str | None) -> tuple[str, bool]:
    out: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                return "", True
            out.append(_quote(following))
        elif character in "%_":
            out.append(".*" if character == "%" else ".")
        else:
            out.append(_quote(character))
    return "\\A(?:" + "".join(out) + ")\\z", False


def _quote(character: str) -> str:
    return "\\" + character if character in "\\.[]{}()*+?^$|" else character
