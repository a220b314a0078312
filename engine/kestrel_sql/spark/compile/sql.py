"""Builds Spark SQL as sqlglot trees, and writes trees as text; no other module does the latter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import ClassVar

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator

from kestrel_sql.functions.declaration import Checked
from kestrel_sql.spark.types import CARRIER, to_data_type
from kestrel_sql.types.sql_types import SqlType

Tree = exp.Expression
_Write = Callable[[Generator, Tree], str]

TRUE = exp.true()
FALSE = exp.false()
NULL = exp.null()


def to_text(tree: Tree) -> str:
    """Write a tree in Spark's dialect, with operators, CASE, IS NULL and CAST as calls of functions that mean the same.

    Spark's grammar reads `(`, `WHEN` and `CAST` in several ways, and its parser looks ahead over all that follows to
    decide; a name in backticks leaves no choice. Calls take less than a fifth of the parser's time (docs/adr/0033).
    """
    return _CallWriter(dialect="spark", comments=False).generate(tree, copy=False)


def call(function: str, *arguments: Tree) -> Tree:
    """A call of a Spark function, whose name is written unchanged."""
    return exp.Anonymous(this=function, expressions=list(arguments))


def column(*path: str) -> Tree:
    """A column, or a field of a struct column."""
    tree: Tree = exp.column(exp.to_identifier(path[0], quoted=True))
    for part in path[1:]:
        tree = exp.Dot(this=tree, expression=exp.to_identifier(part, quoted=True))
    return tree


def text(value: str) -> Tree:
    """A string literal; the generator escapes it."""
    return exp.Literal.string(value)


def integer(value: int) -> Tree:
    """An INT literal."""
    return exp.Literal.number(value) if value >= 0 else exp.Paren(this=exp.Neg(this=exp.Literal.number(-value)))


def bigint(value: int) -> Tree:
    """A BIGINT literal."""
    return exp.Cast(this=text(str(value)), to=exp.DataType.build("BIGINT"))


def decimal(value: Decimal, sql_type: SqlType) -> Tree:
    """A DECIMAL literal of the given type."""
    return cast(text(f"{value:f}"), sql_type)


def double(value: float) -> Tree:
    """A DOUBLE literal."""
    return exp.Cast(this=text(repr(value)), to=exp.DataType.build("DOUBLE"))


def is_constant(tree: Tree) -> bool:
    """Whether a tree is a literal made by this module, which is never NULL."""
    if isinstance(tree, exp.Paren) and isinstance(tree.this, exp.Neg):
        return isinstance(tree.this.this, exp.Literal)
    if isinstance(tree, exp.Cast):
        return isinstance(tree.this, exp.Literal) and tree.to.this in _EXACT_LITERALS
    return isinstance(tree, exp.Literal | exp.Boolean)


_EXACT_LITERALS = frozenset({exp.DataType.Type.BIGINT, exp.DataType.Type.DOUBLE})


def cast(tree: Tree, sql_type: SqlType | None) -> Tree:
    """Spark's own CAST to the Spark form of a SQL type."""
    return exp.Cast(this=tree, to=to_data_type(sql_type))


def cast_text(tree: Tree, spark_type: str) -> Tree:
    """Spark's own CAST to a type given as Spark SQL, which must not come from a user."""
    return exp.Cast(this=tree, to=exp.DataType.build(spark_type, dialect="spark", udt=False))


def null_of(sql_type: SqlType | None) -> Tree:
    """A typed NULL."""
    return cast(NULL, sql_type)


def if_(condition: Tree, then: Tree, otherwise: Tree | None = None) -> Tree:
    """IF; without `otherwise` the alternative is NULL."""
    return call("if", condition, then, otherwise if otherwise is not None else NULL)


def is_null(tree: Tree) -> Tree:
    """IS NULL."""
    return exp.Paren(this=exp.Is(this=_grouped(tree), expression=NULL))


def is_not_null(tree: Tree) -> Tree:
    """IS NOT NULL."""
    return exp.Paren(this=exp.Not(this=exp.Is(this=_grouped(tree), expression=NULL)))


def null_fails(tree: Tree) -> Checked:
    """A value that is NULL if and only if its evaluation fails."""
    return Checked(tree, is_null(tree), null_on_failure=True, null_only_on_failure=True)


def any_of(conditions: Iterable[Tree | None]) -> Tree | None:
    """OR of the conditions that are not None; None without any."""
    given = [c for c in conditions if c is not None]
    if not given:
        return None
    return given[0] if len(given) == 1 else exp.Paren(this=exp.or_(*given, copy=False))


def all_of(*conditions: Tree) -> Tree:
    """AND of the conditions."""
    return conditions[0] if len(conditions) == 1 else exp.Paren(this=exp.and_(*conditions, copy=False))


def not_(tree: Tree) -> Tree:
    """NOT."""
    return exp.Paren(this=exp.Not(this=exp.Paren(this=tree)))


def binary(kind: type[exp.Binary], left: Tree, right: Tree) -> Tree:
    """A binary operation in parentheses. A chain of AND or OR has one pair, so that a long chain is not a deep tree."""
    chained = issubclass(kind, exp.And | exp.Or) and isinstance(left, exp.Paren) and isinstance(left.this, kind)
    return exp.Paren(this=kind(this=left.this if chained else _grouped(left), expression=_grouped(right)))


def is_in(tree: Tree, items: Sequence[Tree]) -> Tree:
    """IN a list."""
    return exp.Paren(this=exp.In(this=_grouped(tree), expressions=list(items)))


def coalesce_false(tree: Tree) -> Tree:
    """The condition, with NULL as false."""
    if isinstance(tree, exp.Boolean) or (
        isinstance(tree, exp.Anonymous) and tree.name == "coalesce" and tree.expressions[-1] is FALSE
    ):
        return tree
    return call("coalesce", tree, FALSE)


def case(branches: Sequence[tuple[Tree, Tree]], default: Tree | None) -> Tree:
    """CASE WHEN … END."""
    return exp.Case(ifs=[exp.If(this=c, true=r) for c, r in branches], default=default)


def lambda_(parameters: Sequence[str], body: Tree) -> Tree:
    """A lambda; its parameters must not come from a user."""
    return exp.Lambda(this=body, expressions=[exp.to_identifier(p) for p in parameters])


def named_struct(fields: Iterable[tuple[str, Tree]]) -> Tree:
    """A struct of named fields; without fields it is carried."""
    fields = tuple(fields) or ((CARRIER, cast_text(NULL, "TINYINT")),)
    return call("named_struct", *(part for field, tree in fields for part in (text(field), tree)))


def _grouped(tree: Tree) -> Tree:
    simple = (
        exp.Literal | exp.Column | exp.Anonymous | exp.Paren | exp.Null | exp.Boolean | exp.Cast | exp.Dot | exp.Case
    )
    return tree if isinstance(tree, simple) else exp.Paren(this=tree)


def null_condition(value: Tree) -> Tree | None:
    """The condition that `value` is NULL, or None if it never is, such as a comparison."""
    if isinstance(value, exp.Boolean | exp.Literal):
        return None
    if isinstance(value, exp.Anonymous) and value.name == "coalesce" and value.expressions[-1] == FALSE:
        return None
    if isinstance(value, exp.Paren) and isinstance(value.this, exp.And | exp.Or | exp.Is):
        return None
    if isinstance(value, exp.Paren) and isinstance(value.this, exp.Not):
        inner = value.this.this
        return (
            null_condition(inner.this if isinstance(inner, exp.Paren) else inner)
            if not isinstance(inner, exp.Is)
            else None
        )
    return is_null(value)


def _binary(function: str) -> _Write:
    return lambda writer, tree: f"`{function}`({writer.sql(tree, 'this')}, {writer.sql(tree, 'expression')})"


def _negated(write: _Write) -> _Write:
    return lambda writer, tree: f"`not`({write(writer, tree)})"


def _connected(writer: Generator, tree: Tree) -> str:
    """Write a chain of AND or OR as a balanced tree of calls, which a long chain does not make deep."""
    parts = [writer.sql(operand) for operand in tree.flatten(unnest=False)]
    while len(parts) > 1:
        pairs = [f"`{tree.key}`({left}, {right})" for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return parts[0]


def _case(writer: Generator, tree: Tree) -> str:
    branches = [part for branch in tree.args["ifs"] for part in (branch.this, branch.args["true"])]
    default = tree.args.get("default")
    return f"`when`({', '.join(map(writer.sql, [*branches, *([default] if default is not None else [])]))})"


def _is_null(writer: Generator, tree: Tree) -> str:
    return f"`isnull`({writer.sql(tree, 'this')})"


def _not(writer: Generator, tree: Tree) -> str:
    inner = tree.this.unnest()
    return f"`isnotnull`({writer.sql(inner, 'this')})" if isinstance(inner, exp.Is) else f"`not`({writer.sql(inner)})"


def _call(writer: Generator, tree: Tree) -> str:
    return f"`{tree.name}`({', '.join(map(writer.sql, tree.expressions))})"


def _cast(writer: Generator, tree: Tree) -> str:
    """Write a cast to a type without parameters as a call of the type's name, and others in Spark's short form."""
    kind, value = writer.sql(tree, "to"), writer.sql(tree, "this")
    return f"`{kind}`({value})" if kind in _CASTS else f"{value} :: {kind}"


def _dot(writer: Generator, tree: Tree) -> str:
    struct = writer.sql(tree, "this")
    return f"{f'({struct})' if isinstance(tree.this, exp.Cast) else struct}.{writer.sql(tree, 'expression')}"


def _paren(writer: Generator, tree: Tree) -> str:
    text = writer.sql(tree, "this")
    return text if type(tree.this) in _CALLS or isinstance(tree.this, exp.Paren) else f"({text})"


_OPERATORS: dict[type[Tree], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.BitwiseAnd: "&",
    exp.BitwiseXor: "^",
}

_CASTS = frozenset({"BIGINT", "BINARY", "BOOLEAN", "DATE", "DOUBLE", "INT", "STRING", "TIMESTAMP", "TINYINT"})
"""Types whose names are functions of Spark, too."""

_CALLS: dict[type[exp.Expr], Callable[..., str]] = {
    **{kind: _binary(name) for kind, name in _OPERATORS.items()},
    exp.NEQ: _negated(_binary("=")),
    exp.NullSafeNEQ: _negated(_binary("<=>")),
    exp.And: _connected,
    exp.Or: _connected,
    exp.Case: _case,
    exp.Is: _is_null,
    exp.Not: _not,
}


class _CallWriter(SparkGenerator):
    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **SparkGenerator.TRANSFORMS,
        **_CALLS,
        exp.Anonymous: _call,
        exp.Cast: _cast,
        exp.Dot: _dot,
        exp.Paren: _paren,
    }
