"""Compiles expressions over DECIMALs of more than 38 digits and NULL keys of maps, which no type of Spark holds.

They run in Python (rules L4.4.8, L4.7); between expressions the values are carried as text (`kestrel_sql.spark.types`).
"""

from __future__ import annotations

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.expressions.compiler import compile_expression
from kestrel_sql.functions.bind.nodes import Bound, columns_of
from kestrel_sql.functions.declaration import Checked
from kestrel_sql.spark.compile.arithmetic import digits_between
from kestrel_sql.spark.compile.calls import evaluated_expression
from kestrel_sql.spark.compile.context import Context
from kestrel_sql.spark.types import MAX_PRECISION, is_wide
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types.sql_types import Decimal, Map, contains


def is_over_wide(bound: Bound) -> bool:
    """Whether an expression needs a DECIMAL of more than 38 digits, also in a lambda of its own."""
    if isinstance(bound.node, e.ColumnRef | e.LambdaVariable | e.NullLiteral):
        return False
    parts = (child.children[0] if isinstance(child.node, e.Lambda) else child for child in bound.children)
    return _gives_wide(bound) or any(
        is_wide(part.type) or (part is not child and _is_wide_inside(part))
        for part, child in zip(parts, bound.children, strict=True)
    )


def _is_wide_inside(bound: Bound) -> bool:
    return _gives_wide(bound) or any(map(_is_wide_inside, bound.children))


def uses_null_key(bound: Bound) -> bool:
    """Whether an expression looks into a map that it makes itself and whose key may be NULL, as no map of Spark has.

    A map that is a result is written by a serde, for which the key is the string "null".
    """
    if isinstance(bound.node, _CONSTRUCTORS) or not any(map(_may_have_null_key, bound.children)):
        return False
    return not _free_variables(bound) and _is_interpretable(bound)


def _may_have_null_key(bound: Bound) -> bool:
    match bound.node, bound.type:
        case e.MapConstructor(), _:
            return not all(isinstance(key.node, e.Literal) for key in bound.children[::2])
        case e.FunctionCall(name), Map() if name in _MAKERS:
            return True
        case _:
            has_map = contains(bound.type, lambda part: isinstance(part, Map))
            return has_map and any(map(_may_have_null_key, bound.children))


def _is_interpretable(bound: Bound) -> bool:
    try:
        compile_expression(bound)
    except UnsupportedError:
        return False
    return True


_CONSTRUCTORS = (e.ArrayConstructor, e.MapConstructor, e.StructConstructor, e.Lambda)
_MAKERS = ("AS_MAP", "TRANSFORM")
"""The functions that make maps with keys of other values."""


def _gives_wide(bound: Bound) -> bool:
    if isinstance(bound.node, e.Arithmetic) and isinstance(bound.type, Decimal):
        if bound.node.op is e.ArithmeticOp.MODULUS:
            # Whether the quotient has too many digits is not seen from the remainder.
            return True
        left, right = (child.type for child in bound.children)
        between = digits_between(bound.node.op, (left, right), bound.type)
        return max(bound.type.precision, between) > MAX_PRECISION
    return is_wide(bound.type)


def over_wide(bound: Bound, context: Context) -> Checked:
    """Compile an expression over such operands to one Arrow function of its columns, which computes exactly.

    Raises:
        UnsupportedError: the expression uses parameters of a lambda around it, or has no type.
    """
    if bound.type is None or _free_variables(bound):
        raise UnsupportedError(
            f"{format_expression(bound.node)} computes with DECIMALs of more than {MAX_PRECISION} digits in a lambda",
            span=bound.node.span,
            hint="cast the parameters of the lambda to fewer digits, or to DOUBLE",
        )
    columns = dict(columns_of(bound))
    return evaluated_expression(bound, columns, [Checked(context.columns[name]) for name in columns], context)


def _free_variables(bound: Bound) -> frozenset[str]:
    if isinstance(bound.node, e.LambdaVariable):
        return frozenset({bound.node.name})
    free = frozenset[str]().union(*map(_free_variables, bound.children))
    return free - set(bound.node.parameters) if isinstance(bound.node, e.Lambda) else free
