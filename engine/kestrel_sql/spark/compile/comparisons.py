"""Compiles comparisons, which in ksqlDB are false for NULL operands, and LIKE (rules L4.3, L4.5)."""

from __future__ import annotations

from sqlglot import exp

from kestrel_sql.functions.declaration import Checked
from kestrel_sql.functions.library.spark_sql.arrays import comparable
from kestrel_sql.functions.library.spark_sql.expressions import is_simple, java_order
from kestrel_sql.functions.library.text.like import ANY, LINE_ENDS, like_regex, plain_part
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.types import MAX_PRECISION
from kestrel_sql.sql.nodes.expressions import ComparisonOp
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import can_be_equal, decimal_of, is_container
from kestrel_sql.types.sql_types import Array, Decimal, Map, SqlType
from kestrel_sql.types.time_units import DAY_MS

_KINDS: dict[ComparisonOp, type[exp.Binary]] = {
    ComparisonOp.EQUAL: exp.EQ,
    ComparisonOp.NOT_EQUAL: exp.NEQ,
    ComparisonOp.LESS_THAN: exp.LT,
    ComparisonOp.LESS_THAN_OR_EQUAL: exp.LTE,
    ComparisonOp.GREATER_THAN: exp.GT,
    ComparisonOp.GREATER_THAN_OR_EQUAL: exp.GTE,
}

_ORDERS = frozenset(
    {
        ComparisonOp.LESS_THAN,
        ComparisonOp.LESS_THAN_OR_EQUAL,
        ComparisonOp.GREATER_THAN,
        ComparisonOp.GREATER_THAN_OR_EQUAL,
    }
)

_SPECIAL = r"([\\.\[\]{}()*+?^$|])"
_LAST = "\u0003"
"""A placeholder for the last `%` of a pattern."""


def compare(op: ComparisonOp, left: Tree, right: Tree, left_type: SqlType | None, right_type: SqlType | None) -> Tree:
    """Compare two values; the result is true or false, never NULL."""
    if t.TIMESTAMP in (left_type, right_type) and t.DATE in (left_type, right_type):
        left, right = (_as_instant(x, sql_type) for x, sql_type in ((left, left_type), (right, right_type)))
    if is_container(left_type) and not can_be_equal(left_type, right_type):
        # Spark compares only values of one type.
        left, right = (
            s.if_(s.is_null(tree), s.null_of(t.INTEGER), s.integer(side)) for side, tree in enumerate((left, right))
        )
        left_type = right_type = t.INTEGER
    elif is_container(left_type) and left_type != right_type:
        left, right = s.cast(left, _of_any_precision(left_type)), s.cast(right, _of_any_precision(right_type))
    if t.DOUBLE in (left_type, right_type):
        return _compare_doubles(op, *(_as_double(each, of) for each, of in ((left, left_type), (right, right_type))))
    left, right = comparable(left, left_type), comparable(right, right_type)
    if op in _ORDERS and not (left_type == t.STRING and any(map(_is_below_surrogates, (left, right)))):
        left, right = java_order(left, left_type), java_order(right, right_type)
    if _beyond_decimal(left_type, right_type):
        left, right = _whole_and_rest(left), _whole_and_rest(right)
    if op is ComparisonOp.IS_NOT_DISTINCT_FROM:
        return s.binary(exp.NullSafeEQ, left, right)
    if op is ComparisonOp.IS_DISTINCT_FROM:
        return s.binary(exp.NullSafeNEQ, left, right)
    return s.coalesce_false(s.binary(_KINDS[op], left, right))


def _is_below_surrogates(value: Tree) -> bool:
    """Whether a value is a constant that UTF-8 and UTF-16 order alike against every string."""
    return isinstance(value, exp.Literal) and value.is_string and max(value.name, default="") < "\ud800"


def _of_any_precision(sql_type: SqlType | None) -> SqlType | None:
    """Return a type with the precision of Spark's widest DECIMAL in place of every other."""
    match sql_type:
        case Decimal(_, scale):
            return Decimal(MAX_PRECISION, scale)
        case Array(item):
            return Array(_of_any_precision(item) or item)
        case Map(key, item):
            return Map(_of_any_precision(key) or key, _of_any_precision(item) or item)
        case _:
            return sql_type


def _beyond_decimal(left: SqlType | None, right: SqlType | None) -> bool:
    """Whether no DECIMAL of Spark holds all values of both types; Spark would then round before it compares."""
    exact = all(t.is_numeric(side) and side != t.DOUBLE for side in (left, right))
    if left is None or right is None or not exact or not (isinstance(left, Decimal) or isinstance(right, Decimal)):
        return False
    a, b = decimal_of(left), decimal_of(right)
    return max(a.precision - a.scale, b.precision - b.scale) + max(a.scale, b.scale) > MAX_PRECISION


def _whole_and_rest(value: Tree) -> Tree:
    """Split a number so that pairs compare as the numbers do: both parts have types that hold them exactly."""
    whole = s.cast(s.call("floor", value), Decimal(MAX_PRECISION, 0))
    rest = s.cast(s.call("pmod", value, s.cast(s.bigint(1), Decimal(1, 0))), Decimal(MAX_PRECISION, MAX_PRECISION))
    return s.if_(s.is_null(value), s.NULL, s.named_struct([("w", whole), ("r", rest)]))


def _as_double(value: Tree, sql_type: SqlType | None) -> Tree:
    return value if sql_type == t.DOUBLE else s.cast(value, t.DOUBLE)


def _compare_doubles(op: ComparisonOp, left: Tree, right: Tree) -> Tree:
    """Compare two DOUBLEs: NaN is neither less than a number nor equal to it nor greater, so not distinct from it."""
    numbers = [each if s.is_constant(each) else s.call("nanvl", each, s.null_of(t.DOUBLE)) for each in (left, right)]
    if not op.takes_null:
        return s.coalesce_false(s.binary(_KINDS[op], *numbers))
    one_is_null = s.binary(exp.NEQ, s.is_null(left), s.is_null(right))
    distinct = s.call("coalesce", s.binary(exp.NEQ, *numbers), one_is_null)
    return distinct if op is ComparisonOp.IS_DISTINCT_FROM else s.not_(distinct)


def _as_instant(value: Tree, sql_type: SqlType | None) -> Tree:
    return s.binary(exp.Mul, s.cast(value, t.BIGINT), s.bigint(DAY_MS)) if sql_type == t.DATE else value


def like(value: Tree, pattern: Tree, escape: str | None) -> Checked:
    """Match a whole string. `%` stands for any characters and `_` for one, but never for a line end.

    A pattern with an escape character is a literal.
    """
    if isinstance(pattern, exp.Literal):
        plain = plain_part(pattern.this, escape) if is_simple(value) else None
        if plain is not None:
            return Checked(_like_plain(value, *plain))
        regex = like_regex(pattern.this, escape, any_=".")
        return (
            Checked(s.FALSE, s.TRUE) if regex is None else Checked(s.call("rlike", value, s.text(f"\\A(?:{regex})\\z")))
        )
    return Checked(s.call("rlike", value, _pattern_of(pattern)))


def _like_plain(value: Tree, before: bool, part: str, after: bool) -> Tree:
    """Search for a plain string, which is much cheaper than a regular expression.

    A `%` on either side does not match line ends.
    """
    if not before and not after:
        return s.binary(exp.EQ, value, s.text(part))
    found = s.call("contains" if before and after else "endswith" if before else "startswith", value, s.text(part))
    ends = [s.call("contains", value, s.text(end)) for end in LINE_ENDS]
    is_ascii = s.binary(exp.EQ, s.call("octet_length", value), s.call("length", value))
    rare = s.any_of(end for end, text in zip(ends, LINE_ENDS, strict=True) if not text.isascii()) or s.FALSE
    usual = [end for end, text in zip(ends, LINE_ENDS, strict=True) if text.isascii()]
    return s.all_of(found, s.not_(s.any_of([*usual, s.all_of(s.not_(is_ascii), rare)]) or s.FALSE))


def _pattern_of(pattern: Tree) -> Tree:
    """Translate a LIKE pattern that is computed for each row, with the result of `like_regex`."""
    marked = s.call("regexp_replace", pattern, s.text(_SPECIAL), s.text(r"\\$1"))
    # The placeholder is escaped if the pattern itself contains it.
    marked = _replaced(marked, _LAST, f"\\x{ord(_LAST):02x}")
    last = s.call("regexp_replace", marked, s.text(r"(?s)\A(.*)%([^%]*)\z"), s.text(f"$1{_LAST}$2"))
    body = _replaced(_replaced(_replaced(last, "%", f")(?>{ANY}*?"), "_", ANY), _LAST, f"){ANY}*(?:")
    return s.call("concat", s.text("\\A(?>"), body, s.text(")\\z"))


def _replaced(tree: Tree, old: str, new: str) -> Tree:
    return s.call("replace", tree, s.text(old), s.text(new))
