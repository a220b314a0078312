"""Compiles calls of scalar functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from sqlglot import exp

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.expressions.of_row import RowExpression
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.declaration import CallTypes, Checked, Nulls, Runs, Scalar, SparkLambda, Tabular
from kestrel_sql.functions.interpreter import casts
from kestrel_sql.functions.library.spark_sql.expressions import is_large, is_simple, let
from kestrel_sql.functions.library.text.like import escaped_like_regex
from kestrel_sql.spark.compile import comparisons
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCall
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import SqlType


def compile_call(bound: Bound, arguments: Sequence[Checked | SparkLambda], context: Context) -> Checked:
    """Compile a call; its arguments are compiled already."""
    function = bound.function
    if not isinstance(function, Scalar):
        raise UnsupportedError(f"{function.name if function else 'this function'} cannot be called here")
    types = call_types(bound, context)
    failures = [argument.fails for argument in arguments if isinstance(argument, Checked)]
    failures += missing_required(bound, arguments)
    if function.runs is Runs.PYTHON:
        result = python_result(function, types, arguments, context, constants(bound, types))
    else:
        result = _native(function, types, arguments)
    failed = s.any_of(failures)
    # A NULL argument makes the result NULL only where the declaration says so.
    null_on_failure = failed is None or (
        function.nulls is Nulls.PROPAGATE and all(a.is_null_on_failure for a in arguments if isinstance(a, Checked))
    )
    return Checked(result.value, s.any_of([failed, result.fails]), null_on_failure and result.is_null_on_failure)


def constants(bound: Bound, types: CallTypes) -> tuple[tuple[int, Any], ...]:
    """Return the literal arguments of a call, by position; a Python body gets them without a column."""
    pairs = enumerate(zip(bound.children, types.arguments, strict=True))
    return tuple(
        (i, child.node.value) for i, (child, sql_type) in pairs if _is_plain(child.node) and child.type == sql_type
    )


def call_types(bound: Bound, context: Context) -> CallTypes:
    """Return the types and settings of a call, for the body of the function."""
    if bound.type is None:
        raise UnsupportedError("a function whose result has no type cannot be called")
    settings = {key: value for key, value in context.settings.items() if key.startswith("ksql.functions.")}
    return CallTypes(tuple(child.type for child in bound.children), bound.type, settings)


def missing_required(bound: Bound, arguments: Sequence[Checked | SparkLambda]) -> list[Tree]:
    """Return the conditions that an argument is NULL, for parameters that are Java primitives in ksqlDB."""
    pairs = zip(bound.required, arguments, strict=False)
    return [
        s.is_null(a.value)
        for required, a in pairs
        if required and isinstance(a, Checked) and not s.is_constant(a.value)
    ]


def _is_plain(node: e.Expression) -> TypeGuard[e.StringLiteral | e.IntegerLiteral | e.LongLiteral | e.BooleanLiteral]:
    return isinstance(node, e.StringLiteral | e.IntegerLiteral | e.LongLiteral | e.BooleanLiteral)


def _native(function: Scalar, types: CallTypes, arguments: Sequence[Checked | SparkLambda]) -> Checked:
    given = [argument.value if isinstance(argument, Checked) else argument for argument in arguments]
    result = _guarded(function, types, given)
    if function.nulls is Nulls.BODY or not any(isinstance(a, exp.Expression) and is_large(a) for a in given):
        return result
    if result.fails is None and all(
        gives_null(result.value, a) for a in given if isinstance(a, exp.Expression) and not s.is_constant(a)
    ):
        return result
    # The guard and the body would both contain a large argument, which doubles at every level of nesting.
    shared = [
        i for i, a in enumerate(given) if isinstance(a, exp.Expression) and not s.is_constant(a) and not is_simple(a)
    ]

    def with_names(*names: Tree) -> Checked:
        named = dict(zip(shared, names, strict=True))
        return _guarded(function, types, [named.get(i, a) for i, a in enumerate(given)])

    values = [a for i, a in enumerate(given) if i in shared and isinstance(a, exp.Expression)]
    fails = None if result.fails is None else let(values, lambda *names: with_names(*names).fails or s.FALSE)
    return Checked(let(values, lambda *names: with_names(*names).value), fails, result.null_on_failure)


def _guarded(function: Scalar, types: CallTypes, given: Sequence[Tree | SparkLambda]) -> Checked:
    """Apply a body; a NULL argument makes the result NULL, unless the body handles NULL itself."""
    made = function.body(types, *given) if function.with_types else function.body(*given)
    result = made if isinstance(made, Checked) else Checked(made)
    if function.nulls is Nulls.BODY:
        return result
    null_argument = s.any_of(s.is_null(a) for a in given if isinstance(a, exp.Expression) and not s.is_constant(a))
    if null_argument is None:
        return result
    if result.fails is None and all(
        gives_null(result.value, a) for a in given if isinstance(a, exp.Expression) and not s.is_constant(a)
    ):
        return result
    fails = None if result.fails is None else s.all_of(s.not_(null_argument), result.fails)
    return Checked(s.if_(null_argument, s.null_of(types.returns), result.value), fails, result.null_on_failure)


def gives_null(tree: exp.Expr, argument: exp.Expr) -> bool:
    """Whether `tree` is known to be NULL in Spark where `argument`, a part of it, is NULL."""
    if tree is argument:
        return True
    match tree:
        case exp.Null():
            return True
        case exp.Anonymous(this="if", expressions=[_, then, otherwise]):
            return gives_null(then, argument) and gives_null(otherwise, argument)
        case exp.Anonymous():
            return tree.name in _NULL_IN_NULL_OUT and any(gives_null(part, argument) for part in tree.expressions)
        case exp.Cast() | exp.Paren() | exp.Neg():
            return isinstance(tree.this, exp.Expr) and gives_null(tree.this, argument)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv():
            return any(gives_null(side, argument) for side in (tree.left, tree.right))
        case _:
            return False


_NULL_IN_NULL_OUT = frozenset(
    {
        *(
            "abs",
            "acos",
            "asin",
            "atan",
            "atan2",
            "btrim",
            "cbrt",
            "ceil",
            "cos",
            "cosh",
            "cot",
            "degrees",
            "encode",
            "floor",
            "length",
            "lower",
        ),
        *(
            "lpad",
            "md5",
            "octet_length",
            "radians",
            "regexp_replace",
            "replace",
            "rpad",
            "signum",
            "sin",
            "sinh",
            "split",
            "sqrt",
        ),
        *("substring", "tan", "tanh", "upper"),
    }
)
"""Spark functions that return NULL for a NULL argument, and need no guard."""


def python_result(
    function: Scalar | Tabular,
    types: CallTypes,
    arguments: Sequence[Checked | SparkLambda],
    context: Context,
    literals: tuple[tuple[int, Any], ...] = (),
) -> Checked:
    """Call a Python body, which is a Spark function of the arguments that are no literals.

    It returns a value and an error message.
    """
    given = [argument.value for argument in arguments if isinstance(argument, Checked)]
    if len(given) != len(arguments):
        raise UnsupportedError(f"{function.name} runs in Python and cannot take a lambda")
    fixed = {position for position, _ in literals}
    columns = [s.cast(value, types.arguments[i]) for i, value in enumerate(given) if i not in fixed]
    guarded = context.active is not s.TRUE or not columns
    call = PythonCall(function, types, literals, guarded)
    name = context.python.name(call)
    outcome = s.call(name, *([context.active] if guarded else []), *columns)
    if isinstance(function, Scalar) and function.vector is not None:
        return Checked(outcome)
    value = exp.Dot(this=outcome, expression=exp.to_identifier("v"))
    error = exp.Dot(this=outcome.copy(), expression=exp.to_identifier("e"))
    if call.is_of_user:
        context.errors.append(error.copy())
    return Checked(value, s.is_not_null(error), null_on_failure=True)


def compile_like(operand: Checked, pattern: Checked, escape: str | None, context: Context) -> Checked:
    """Compile LIKE; a pattern that is computed for each row and has an escape character is translated in Python."""
    if escape is None or isinstance(pattern.value, exp.Literal):
        return comparisons.like(operand.value, pattern.value, escape)
    types = CallTypes((t.STRING, t.STRING), t.STRING)
    regex = python_result(escaped_like_regex, types, [pattern, Checked(s.text(escape))], context, ((1, escape),))
    return Checked(s.call("rlike", operand.value, regex.value), regex.fails)


def evaluated_call(
    bound: Bound,
    body: Callable[..., Any],
    types: tuple[SqlType | None, ...],
    arguments: Sequence[Checked],
    context: Context,
) -> Checked:
    """Call `body`, which evaluates a whole call in Python, with arguments of the given types."""
    function = bound.function
    if not isinstance(function, Scalar) or bound.type is None:
        raise UnsupportedError("only a scalar function can be called here")
    stand_in = replace(function, body=body, runs=Runs.PYTHON, nulls=Nulls.BODY, with_types=False)
    result = python_result(stand_in, CallTypes(types, bound.type), arguments, context)
    failed = s.any_of(argument.fails for argument in arguments)
    return Checked(result.value, s.any_of([failed, result.fails]), null_on_failure=failed is None)


def java_text(value: Tree, sql_type: SqlType, context: Context) -> Tree:
    """A value as Java's `toString` writes it; NULL stays NULL."""
    if sql_type in (t.BOOLEAN, t.INTEGER, t.BIGINT, t.DOUBLE, t.STRING):
        return s.cast(value, t.STRING)
    function = replace(_OWN, name="text", body=_text, nulls=Nulls.PROPAGATE, with_types=True)
    return python_result(function, CallTypes((sql_type,), t.STRING), [Checked(value)], context).value


def _text(types: CallTypes, value: Any) -> str:
    return casts.java_text(value, types.arguments[0])  # type: ignore[arg-type]


def evaluated_expression(
    bound: Bound, columns: Mapping[str, SqlType | None], arguments: Sequence[Checked], context: Context
) -> Checked:
    """Evaluate an expression over `columns`, whose values are `arguments`, in Python."""
    function = replace(_OWN, body=RowExpression(bound, tuple(columns), context.options))
    return python_result(function, CallTypes(tuple(columns.values()), bound.type or t.STRING), arguments, context)


_OWN = Scalar(
    name="expression",
    signatures=(),
    body=_text,
    runs=Runs.PYTHON,
    nulls=Nulls.BODY,
    with_types=False,
    returns=None,
    display_name="",
    doc="",
)
"""A Python function that is none of the language."""
