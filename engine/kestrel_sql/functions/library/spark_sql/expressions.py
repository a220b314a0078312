"""Builds Spark SQL for native function bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice

from sqlglot import exp

from kestrel_sql.types.sql_types import BYTES, DOUBLE, STRING, Decimal, SqlType

Tree = exp.Expression


def call(name: str, *arguments: Tree) -> Tree:
    """Call a Spark function."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def text(value: str) -> Tree:
    """Build a string literal; the generator escapes it."""
    return exp.Literal.string(value)


def number(value: int) -> Tree:
    """Build an INT literal."""
    return exp.Literal.number(value) if value >= 0 else exp.Paren(this=exp.Neg(this=exp.Literal.number(-value)))


def double(value: float) -> Tree:
    """Build a DOUBLE literal, also for NaN and the infinities."""
    return cast(text(repr(value)), "DOUBLE")


def null() -> Tree:
    """Build NULL."""
    return exp.null()


def cast(tree: Tree, spark_type: str) -> Tree:
    """Cast to a Spark type given as SQL text; the text must come from our code, never from a user."""
    return exp.Cast(this=tree, to=_data_type(spark_type))


@cache
def _data_type(spark_type: str) -> exp.DataType:
    return exp.DataType.build(spark_type, dialect="spark")


def cast_decimal(tree: Tree, sql_type: Decimal) -> Tree:
    """Cast to a DECIMAL; NULL if the value does not fit."""
    return cast(tree, f"DECIMAL({min(sql_type.precision, 38)}, {min(sql_type.scale, 38)})")


def if_(condition: Tree, then: Tree, otherwise: Tree) -> Tree:
    """Build IF; Spark evaluates only the chosen branch."""
    return call("if", condition, then, otherwise)


def case(branches: Sequence[tuple[Tree, Tree]], default: Tree) -> Tree:
    """Build CASE WHEN … ELSE … END."""
    return exp.Case(ifs=[exp.If(this=condition, true=result) for condition, result in branches], default=default)


def is_null(tree: Tree) -> Tree:
    """Build IS NULL."""
    return exp.Paren(this=exp.Is(this=exp.Paren(this=tree), expression=exp.null()))


def not_(tree: Tree) -> Tree:
    """Build NOT."""
    return exp.Paren(this=exp.Not(this=exp.Paren(this=tree)))


def negative(tree: Tree, sql_type: SqlType | None) -> Tree:
    """Negate a number. Spark's own negation rounds a DECIMAL to 34 digits, or fails."""
    if not isinstance(sql_type, Decimal) or sql_type.precision <= _EXACT_NEGATION_DIGITS:
        return exp.Paren(this=exp.Neg(this=exp.Paren(this=tree)))

    def negated(digits: Tree) -> Tree:
        rest = call("substring", digits, number(2))
        return cast_decimal(
            if_(call("startswith", digits, text("-")), rest, call("concat", text("-"), digits)), sql_type
        )

    return let([cast(tree, "STRING")], negated)


def absolute(tree: Tree, sql_type: SqlType | None) -> Tree:
    """Return the absolute value of a number (see `negative`)."""
    if not isinstance(sql_type, Decimal) or sql_type.precision <= _EXACT_NEGATION_DIGITS:
        return call("abs", tree)
    return cast_decimal(call("regexp_replace", cast(tree, "STRING"), text("^-"), text("")), sql_type)


_EXACT_NEGATION_DIGITS = 34


def op(operator: type[exp.Binary], left: Tree, right: Tree) -> Tree:
    """Build a binary operation in parentheses."""
    return exp.Paren(this=operator(this=exp.Paren(this=left), expression=exp.Paren(this=right)))


def all_of(first: Tree, *others: Tree) -> Tree:
    """Build AND."""
    for other in others:
        first = op(exp.And, first, other)
    return first


def any_of(first: Tree, *others: Tree) -> Tree:
    """Build OR."""
    for other in others:
        first = op(exp.Or, first, other)
    return first


def is_in(tree: Tree, *values: str) -> Tree:
    """Test if a string is one of `values`, which come from our code."""
    return any_of(*(op(exp.EQ, tree, text(value)) for value in values))


def is_simple(tree: Tree) -> bool:
    """Whether a tree is free to evaluate twice: a literal, a column, or a field of a column."""
    if isinstance(tree, exp.Dot):
        return (
            isinstance(tree.this, exp.Expression) and not isinstance(tree.this, exp.Identifier) and is_simple(tree.this)
        )
    return isinstance(tree, exp.Column | exp.Literal | exp.Boolean)


_LOW = "".join(map(chr, range(0x80)))
_ABOVE_ALL = "".join(map(chr, range(0x100, 0x180)))


def signed_order(value: Tree) -> Tree:
    """Turn bytes into a string with the order of Java's bytes: those from 0x80 are negative and come first."""
    return call("translate", call("decode", value, text("ISO-8859-1")), text(_LOW), text(_ABOVE_ALL))


def java_order(value: Tree, sql_type: SqlType | None) -> Tree:
    """Turn a value into one that Spark orders as Java does.

    Bytes are signed, strings UTF-16 units, -0.0 comes before 0.0.
    """
    if sql_type == BYTES:
        return signed_order(value)
    if sql_type == DOUBLE:
        negative_zero = op(exp.EQ, cast(value, "STRING"), text("-0.0"))
        return call("named_struct", text("d"), value, text("p"), not_(negative_zero))
    return call("encode", value, text("UTF-16BE")) if sql_type == STRING else value


def is_ordered_otherwise(sql_type: SqlType | None) -> bool:
    """Whether Spark orders the values of a type otherwise than Java (see `java_order`)."""
    return sql_type in (BYTES, DOUBLE, STRING)


def is_large(tree: Tree) -> bool:
    """Whether a tree is so large that writing it twice lets nested expressions grow exponentially."""
    return next(islice(tree.walk(), _LARGE, None), None) is not None


_LARGE = 60
"""Number of nodes; evaluating a smaller tree twice is cheaper than `let`."""


def let(values: Sequence[Tree], body: Callable[..., Tree]) -> Tree:
    """Evaluate `values` once and refer to them many times in `body`, which takes a name for each.

    Otherwise the SQL text of nested calls would grow exponentially. The values stay outside of the lambda that this
    creates, so it captures none of their names.
    """
    if all(map(is_simple, values)):
        return body(*values)
    fields = [part for i, value in enumerate(values) for part in (text(f"v{i}"), value)]
    row = exp.to_identifier("let_row")
    names = [exp.Dot(this=exp.column("let_row"), expression=exp.to_identifier(f"v{i}")) for i in range(len(values))]
    lambda_ = exp.Lambda(this=body(*names), expressions=[row])
    items = call("transform", call("array", call("named_struct", *fields)), lambda_)
    return call("element_at", items, number(1))
