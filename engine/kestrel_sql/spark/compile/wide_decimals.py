"""Compiles expressions over DECIMALs of more than 38 digits, which no type of Spark holds (rules L4.4.8)."""

from __future__ import annotations

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.declaration import CallTypes, Checked, Nulls, Runs, Scalar
from kestrel_sql.functions.interpreter.evaluate import columns_of, is_lambda_or_unit
from kestrel_sql.functions.interpreter.whole import InterpretedExpression
from kestrel_sql.spark.compile.calls import python_result
from kestrel_sql.spark.compile.context import Context
from kestrel_sql.spark.types import MAX_PRECISION, is_wide
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e


def is_over_wide(bound: Bound) -> bool:
    """Whether an operand has a DECIMAL of more than 38 digits, and the result has none.

    Raises:
        UnsupportedError: the result has one; names the expression.
    """
    if is_wide(bound.type):
        raise UnsupportedError(
            f"{format_expression(bound.node)} is a {bound.type}: Spark holds no DECIMAL of more than {MAX_PRECISION} "
            "digits",
            span=bound.node.span,
            hint=f"cast the result to a DECIMAL of at most {MAX_PRECISION} digits, to DOUBLE or to STRING",
        )
    return any(is_wide(child.type) for child in bound.children if not is_lambda_or_unit(child))


def over_wide(bound: Bound, context: Context) -> Checked:
    """Compile an expression over such operands to one Arrow function of its columns, which computes exactly.

    Raises:
        UnsupportedError: the expression uses parameters of a lambda around it, or has no type.
    """
    if bound.type is None or _uses_variables(bound):
        raise UnsupportedError(
            f"{format_expression(bound.node)} computes with DECIMALs of more than {MAX_PRECISION} digits in a lambda",
            span=bound.node.span,
            hint="cast the parameters of the lambda to fewer digits, or to DOUBLE",
        )
    columns = dict(columns_of(bound))
    body = InterpretedExpression.of(
        bound, tuple(columns), nested=context.nested, preserve_nulls=context.preserve_nulls, settings=context.settings
    )
    function = Scalar(
        name="expression",
        signatures=(),
        body=body,
        runs=Runs.PYTHON,
        nulls=Nulls.BODY,
        with_types=False,
        returns=None,
        display_name="",
        doc="",
    )
    arguments = [Checked(context.columns[name]) for name in columns]
    return python_result(function, CallTypes(tuple(columns.values()), bound.type), arguments, context)


def _uses_variables(bound: Bound) -> bool:
    return isinstance(bound.node, e.LambdaVariable) or any(map(_uses_variables, bound.children))
