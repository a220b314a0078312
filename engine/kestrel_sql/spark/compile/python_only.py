"""Which expressions Spark leaves to Python, as it runs no Python inside a lambda and has other digits than Java."""

from __future__ import annotations

from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.declaration import Runs, Scalar
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, Primitive, SqlType, Struct


def is_lambda_or_unit(argument: Bound) -> bool:
    """Whether an argument is a lambda or an interval unit, which cannot be evaluated before the call."""
    return isinstance(argument.node, e.Lambda | e.IntervalUnit)


def needs_interpreter(bound: Bound) -> bool:
    """Whether the expression is a call with a lambda that calls a Python function."""
    return isinstance(bound.node, e.FunctionCall) and any(
        _calls_python(c) for c in bound.children if isinstance(c.node, e.Lambda)
    )


def _calls_python(bound: Bound) -> bool:
    return (
        (isinstance(bound.function, Scalar) and bound.function.runs is Runs.PYTHON)
        or _escapes_computed_pattern(bound)
        or runs_by_row(bound)
        or any(map(_calls_python, bound.children))
    )


def _escapes_computed_pattern(bound: Bound) -> bool:
    """Whether Spark takes the pattern of a LIKE from Python (`library.text.like`)."""
    node = bound.node
    return isinstance(node, e.Like) and node.escape is not None and not isinstance(node.pattern, e.StringLiteral)


def runs_by_row(bound: Bound) -> bool:
    """Whether an operator runs in Python, because Spark has other digits and texts than Java.

    It makes a DECIMAL of a DOUBLE, compares the two, or writes an ARRAY, MAP or STRUCT.
    """
    types = [child.type for child in bound.children]
    match bound.node:
        case e.Cast():
            takes_digits = t.contains(types[0], lambda part: part == t.DOUBLE) and t.contains(bound.type, _is_decimal)
            return takes_digits or _writes_container(types[0], bound.type)
        case e.Comparison() | e.Between():
            return t.DOUBLE in types and any(of is not None and _is_decimal(of) for of in types)
        case _:
            return False


def _writes_container(source: SqlType | None, target: SqlType | None) -> bool:
    match source, target:
        case ((Array() | Map() | Struct()), Primitive(Base.STRING)):
            return True
        case Array(item), Array(other):
            return _writes_container(item, other)
        case Map(key, item), Map(other_key, other):
            return _writes_container(key, other_key) or _writes_container(item, other)
        case Struct(fields), Struct(others):
            sources = {field.name: field.type for field in fields}
            return any(_writes_container(sources.get(field.name), field.type) for field in others)
        case _:
            return False


def _is_decimal(sql_type: SqlType) -> bool:
    return isinstance(sql_type, Decimal)
