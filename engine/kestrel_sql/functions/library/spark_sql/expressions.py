"""Short hands with which native function bodies write Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice

from sqlglot import exp

from kestrel_sql.types.sql_types import Decimal, SqlType

Tree = exp.Expression


def call(name: str, *arguments: Tree) -> Tree:
    """A call of a Spark function."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def text(value: str) -> Tree:
    """A string literal; the generator escapes it."""
    return exp.Literal.string(value)


def number(value: int) -> Tree:
    """An INT literal."""
    return exp.Literal.number(value) if value >= 0 else exp.Paren(this=exp.Neg(this=exp.Literal.number(-value)))


def double(value: float) -> Tree:
    """A DOUBLE literal; also NaN and the infinities."""
    return cast(text(repr(value)), "DOUBLE")


def null() -> Tree:
    """NULL."""
    return exp.null()


def cast(tree: Tree, spark_type: str) -> Tree:
    """Spark's CAST to a type of ours given as text; never a user's text."""
    return exp.Cast(this=tree, to=_data_type(spark_type))


@cache
def _data_type(spark_type: str) -> exp.DataType:
    return exp.DataType.build(spark_type, dialect="spark")


def cast_decimal(tree: Tree, sql_type: Decimal) -> Tree:
    """Spark's CAST to a DECIMAL; NULL where the value does not fit."""
    return cast(tree, f"DECIMAL({min(sql_type.precision, 38)}, {min(sql_type.scale, 38)})")


def if_(condition: Tree, then: Tree, otherwise: Tree) -> Tree:
    """IF; only the side that is chosen is evaluated."""
    return call("if", condition, then, otherwise)


def case(branches: Sequence[tuple[Tree, Tree]], default: Tree) -> Tree:
    """CASE WHEN … ELSE … END."""
    return exp.Case(ifs=[exp.If(this=condition, true=result) for condition, result in branches], default=default)


def is_null(tree: Tree) -> Tree:
    """IS NULL."""
    return exp.Paren(this=exp.Is(this=exp.Paren(this=tree), expression=exp.null()))


def not_(tree: Tree) -> Tree:
    """NOT."""
    return exp.Paren(this=exp.Not(this=exp.Paren(this=tree)))


def negative(tree: Tree, sql_type: SqlType | None) -> Tree:
    """The number with the other sign; Spark rounds a DECIMAL to 34 digits when it turns it round, or fails."""
    if not isinstance(sql_type, Decimal) or sql_type.precision <= _TURNED_EXACTLY:
        return exp.Paren(this=exp.Neg(this=exp.Paren(this=tree)))

    def turned(written: Tree) -> Tree:
        rest = call("substring", written, number(2))
        return cast_decimal(
            if_(call("startswith", written, text("-")), rest, call("concat", text("-"), written)), sql_type
        )

    return let([cast(tree, "STRING")], turned)


def absolute(tree: Tree, sql_type: SqlType | None) -> Tree:
    """The number without its sign (see `negative`)."""
    if not isinstance(sql_type, Decimal) or sql_type.precision <= _TURNED_EXACTLY:
        return call("abs", tree)
    return cast_decimal(call("regexp_replace", cast(tree, "STRING"), text("^-"), text("")), sql_type)


_TURNED_EXACTLY = 34


def op(operator: type[exp.Binary], left: Tree, right: Tree) -> Tree:
    """A binary operation in parentheses."""
    return exp.Paren(this=operator(this=exp.Paren(this=left), expression=exp.Paren(this=right)))


def all_of(first: Tree, *others: Tree) -> Tree:
    """AND."""
    for other in others:
        first = op(exp.And, first, other)
    return first


def any_of(first: Tree, *others: Tree) -> Tree:
    """OR."""
    for other in others:
        first = op(exp.Or, first, other)
    return first


def is_in(tree: Tree, *values: str) -> Tree:
    """Whether a string is one of ours."""
    return any_of(*(op(exp.EQ, tree, text(value)) for value in values))


def is_simple(tree: Tree) -> bool:
    """Whether it costs nothing to evaluate twice: a literal, a column, or a field of one."""
    if isinstance(tree, exp.Dot):
        return (
            isinstance(tree.this, exp.Expression) and not isinstance(tree.this, exp.Identifier) and is_simple(tree.this)
        )
    return isinstance(tree, exp.Column | exp.Literal | exp.Boolean)


_LOW = "".join(map(chr, range(0x80)))
_ABOVE_ALL = "".join(map(chr, range(0x100, 0x180)))


def signed_order(value: Tree) -> Tree:
    """A text that is ordered as Java orders bytes: those from 0x80 on are negative and come first."""
    return call("translate", call("decode", value, text("ISO-8859-1")), text(_LOW), text(_ABOVE_ALL))


def is_large(tree: Tree) -> bool:
    """Whether writing it twice would let the text of nested expressions grow by the power of their depth."""
    return next(islice(tree.walk(), _LARGE, None), None) is not None


_LARGE = 60
"""Nodes; below that, evaluating a tree twice costs less than what `let` makes of it."""


def let(values: Sequence[Tree], body: Callable[..., Tree]) -> Tree:
    """Evaluate `values` once and use them many times in `body`, which gets a name for each.

    Without it the text of a nested call would grow by the power of its depth. The values stay outside of the lambda that
    this makes, so no name of theirs can be captured.
    """
    if all(map(is_simple, values)):
        return body(*values)
    fields = [part for i, value in enumerate(values) for part in (text(f"v{i}"), value)]
    row = exp.to_identifier("let_row")
    names = [exp.Dot(this=exp.column("let_row"), expression=exp.to_identifier(f"v{i}")) for i in range(len(values))]
    lambda_ = exp.Lambda(this=body(*names), expressions=[row])
    items = call("transform", call("array", call("named_struct", *fields)), lambda_)
    return call("element_at", items, number(1))
