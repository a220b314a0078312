"""Types operators whose operands are bound (rules L4.3, L4.4, L4.5)."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.errors import TypeMismatchError
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.java.time.iso import PARSERS
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes.chains import along_chains
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import (
    base_name,
    can_cast,
    decimal_of,
    lossless_type,
    wider_number,
)

_EQUALITY = (
    e.ComparisonOp.EQUAL,
    e.ComparisonOp.NOT_EQUAL,
    e.ComparisonOp.IS_DISTINCT_FROM,
    e.ComparisonOp.IS_NOT_DISTINCT_FROM,
)


def implicitly_cast(bound: Bound, target: t.SqlType | None) -> Bound:
    """Wrap `bound` in a CAST to `target`, unless it has that type already or none."""
    if target is None or bound.type is None or bound.type == target:
        return bound
    return Bound(e.Cast(bound.node, target, span=bound.node.span), target, (bound,), implicit=True)


def converted(bound: Bound, target: t.SqlType | None) -> Bound:
    """Wrap `bound` in a CAST like `implicitly_cast`, which catches its own errors, unless it is a literal."""
    cast = implicitly_cast(bound, target)
    return cast if isinstance(bound.node, e.StringLiteral) else replace(cast, implicit=False)


def explicit_cast(node: e.Cast, operands: tuple[Bound, ...]) -> Bound:
    """Type a CAST.

    Raises:
        TypeMismatchError: there is no cast between the types.
    """
    (operand,) = operands
    if operand.type is not None and not can_cast(operand.type, node.type):
        raise TypeMismatchError(f"Cast of {operand.type} to {node.type} is not supported", span=node.span)
    return Bound(node, node.type, (operand,))


def comparison(node: e.Comparison, sides: tuple[Bound, ...]) -> Bound:
    """Type a comparison; a DATE beside a TIMESTAMP becomes its midnight.

    Raises:
        TypeMismatchError: the operator does not compare the types, or an operand is NULL.
    """
    return Bound(node, t.BOOLEAN, _comparable(node, node.op, *sides))


def between(node: e.Between, children: tuple[Bound, ...]) -> Bound:
    """Type `x BETWEEN a AND b` as its two comparisons.

    Raises:
        TypeMismatchError: a bound does not compare with the operand.
    """
    operand, lower, upper = children
    least, most = e.ComparisonOp.GREATER_THAN_OR_EQUAL, e.ComparisonOp.LESS_THAN_OR_EQUAL
    for op, bound in ((least, lower), (most, upper)):
        operand, _ = _comparable(node, op, operand, bound)
    _, low = _comparable(node, least, operand, lower)
    _, high = _comparable(node, most, operand, upper)
    return Bound(node, t.BOOLEAN, (operand, low, high))


def _comparable(node: e.Expression, op: e.ComparisonOp, left: Bound, right: Bound) -> tuple[Bound, Bound]:
    if left.type is None or right.type is None:
        raise TypeMismatchError(
            f"Comparison with NULL not supported: {base_name(left.type)} {op.value} {base_name(right.type)}\n"
            f"Use 'IS NULL' or 'IS NOT NULL' instead.\nStatement: {format_expression(node)}",
            span=node.span,
        )
    if {left.type, right.type} == {t.DATE, t.TIMESTAMP}:
        return implicitly_cast(left, t.TIMESTAMP), implicitly_cast(right, t.TIMESTAMP)
    if t.STRING in (left.type, right.type) and (left.type in PARSERS or right.type in PARSERS):
        return _with_literal_time(left, right.type), _with_literal_time(right, left.type)
    if not _compares(op, left.type, right.type):
        raise TypeMismatchError(
            f"Cannot compare {format_expression(left.node)} ({left.type}) to {format_expression(right.node)} "
            f"({right.type}) with {op.name}.\nStatement: {format_expression(node)}",
            span=node.span,
            hint=_cast_hint(right, left.type) or _cast_hint(left, right.type),
        )
    return left, right


def _cast_hint(operand: Bound, target: t.SqlType | None) -> str | None:
    """Return a hint to cast an operand to `target`, or None if that is impossible."""
    if operand.type is None or target is None or operand.type == target or not can_cast(operand.type, target):
        return None
    return f"write CAST({format_expression(operand.node)} AS {target})"


def _with_literal_time(side: Bound, other: t.SqlType) -> Bound:
    """Convert a literal that writes a time now; any other STRING is read by the comparison, unless a side is NULL."""
    if not isinstance(side.node, e.StringLiteral):
        return side
    try:
        PARSERS[other](side.node.value)
    except ValueError:
        return side
    return implicitly_cast(side, other)


def _compares(op: e.ComparisonOp, left: t.SqlType, right: t.SqlType) -> bool:
    if t.is_numeric(left) and t.is_numeric(right):
        return True
    if left == right and left in (t.STRING, t.BYTES, *PARSERS):
        return True
    if op not in _EQUALITY:
        return False
    return left == right == t.BOOLEAN or any(
        isinstance(left, kind) and isinstance(right, kind) for kind in (t.Array, t.Map, t.Struct)
    )


def arithmetic(node: e.Arithmetic, sides: tuple[Bound, ...]) -> Bound:
    """Type an arithmetic operation, or `+` of two strings.

    Raises:
        TypeMismatchError: the operator is not defined for the types.
    """
    left, right = sides
    if left.type == right.type == t.STRING and node.op is e.ArithmeticOp.ADD:
        return Bound(node, t.STRING, (left, right))
    if left.type is None or right.type is None:
        types = " and ".join("null" if side.type is None else str(side.type) for side in (left, right))
        raise TypeMismatchError(
            f"Error processing expression: {format_expression(node)}. Arithmetic on types {types} are not supported.",
            span=node.span,
        )
    if not (t.is_numeric(left.type) and t.is_numeric(right.type)):
        raise TypeMismatchError(
            f"Error processing expression: {format_expression(node)}. "
            f"Unsupported arithmetic types. {base_name(left.type)} {base_name(right.type)}",
            span=node.span,
            hint=next(
                (hint for side in (left, right) if side.type == t.STRING and (hint := _cast_hint(side, t.DOUBLE))), None
            ),
        )
    return Bound(node, _arithmetic_type(node.op, left.type, right.type), (left, right))


def _arithmetic_type(op: e.ArithmeticOp, left: t.SqlType, right: t.SqlType) -> t.SqlType:
    if t.DOUBLE in (left, right) or not (isinstance(left, t.Decimal) or isinstance(right, t.Decimal)):
        return wider_number(left, right)
    return decimal_result(op, decimal_of(left), decimal_of(right))


def decimal_result(op: e.ArithmeticOp, left: t.Decimal, right: t.Decimal) -> t.Decimal:
    """Return the DECIMAL type of an operation; it may exceed 38 digits."""
    whole_left, whole_right = left.precision - left.scale, right.precision - right.scale
    match op:
        case e.ArithmeticOp.ADD | e.ArithmeticOp.SUBTRACT:
            scale = max(left.scale, right.scale)
            return t.Decimal(scale + max(whole_left, whole_right) + 1, scale)
        case e.ArithmeticOp.MULTIPLY:
            return t.Decimal(left.precision + right.precision + 1, left.scale + right.scale)
        case e.ArithmeticOp.DIVIDE:
            scale = max(6, left.scale + right.precision + 1)
            return t.Decimal(whole_left + right.scale + scale, scale)
        case e.ArithmeticOp.MODULUS:
            scale = max(left.scale, right.scale)
            return t.Decimal(min(whole_left, whole_right) + scale, scale)


def signed(node: e.Expression, operands: tuple[Bound, ...]) -> Bound:
    """Type a unary plus or minus.

    Raises:
        TypeMismatchError: the operand is not a number.
    """
    (operand,) = operands
    if not t.is_numeric(operand.type):
        raise TypeMismatchError(
            f"Error processing expression: {format_expression(node)}. "
            f"Unsupported arithmetic types. {base_name(operand.type)}",
            span=node.span,
        )
    return Bound(node, operand.type, (operand,))


def logical(node: e.Expression, operands: tuple[Bound, ...]) -> Bound:
    """Type AND, OR and NOT.

    Raises:
        TypeMismatchError: an operand is not BOOLEAN.
    """
    for operand in operands:
        if operand.type not in (None, t.BOOLEAN):
            raise TypeMismatchError(
                f"Expected a BOOLEAN, but {format_expression(operand.node)} is {operand.type}",
                span=operand.node.span or node.span,
            )
    return Bound(node, t.BOOLEAN, operands)


def ends_decided(node: e.Logical) -> bool:
    """Whether the right side of AND or OR is a constant that decides, beside which ksqlDB's Java takes any NULL."""
    return _constant_truth(node.right) is (node.op is e.LogicalOp.OR)


@along_chains
def _constant_truth(node: e.Expression) -> bool | None:
    """The value of a condition of literals, as a Java compiler knows it; None if it is none."""
    match node:
        case e.BooleanLiteral(literal):
            return literal
        case e.Not(operand):
            value = _constant_truth(operand)
            return None if value is None else not value
        case e.Logical(op, left, right):
            first = _constant_truth(left)
            return first if first is None or first is (op is e.LogicalOp.OR) else _constant_truth(right)
        case _:
            return None


def like(node: e.Like, sides: tuple[Bound, ...]) -> Bound:
    """Type a LIKE.

    Raises:
        TypeMismatchError: an operand is not a STRING, or ESCAPE is not one character.
    """
    for side in sides:
        if side.type not in (None, t.STRING):
            raise TypeMismatchError(
                f"LIKE needs STRING operands, but {format_expression(side.node)} is {side.type}",
                span=side.node.span or node.span,
                hint=_cast_hint(side, t.STRING),
            )
    if node.escape is not None and len(node.escape) != 1:
        raise TypeMismatchError(f"ESCAPE must be one character, but was: '{node.escape}'", span=node.span)
    return Bound(node, t.BOOLEAN, sides)


def case(node: e.Case, children: tuple[Bound, ...]) -> Bound:
    """Type a CASE; results are not converted, so their types must be equal.

    Raises:
        TypeMismatchError: a condition is not BOOLEAN, or the results have different types or are all NULL.
    """
    branches = 2 * len(node.branches)
    for condition in children[:branches:2]:
        if condition.type not in (None, t.BOOLEAN):
            raise TypeMismatchError(
                "WHEN operand type should be boolean.\n"
                f"Type for '{format_expression(condition.node)}' is {condition.type}",
                span=condition.node.span or node.span,
            )
    typed: Bound | None = None
    for result in children[1:branches:2]:
        if typed is not None and result.type not in (None, typed.type):
            raise _different(node, "Type for all 'THEN' clauses should be the same.", "THEN", result, typed)
        if result.type is not None:
            typed = typed or result
    default = children[branches] if len(children) > branches else None
    if default is not None and typed is not None and default.type not in (None, typed.type):
        raise _different(
            node, "Type for the default clause should be the same as for 'THEN' clauses.", "ELSE", default, typed
        )
    result_type = typed.type if typed is not None else default.type if default is not None else None
    if result_type is None:
        raise TypeMismatchError("Invalid Case expression. All case branches have NULL type", span=node.span)
    return Bound(node, result_type, children)


def _different(node: e.Case, rule: str, clause: str, offender: Bound, first: Bound) -> TypeMismatchError:
    return TypeMismatchError(
        f"Invalid Case expression. {rule}\n{clause} expression '{format_expression(offender.node)}' has type "
        f"{offender.type}, the previous ones have {first.type}.",
        span=offender.node.span or node.span,
        hint=_same_type_hint(first, offender),
    )


def _same_type_hint(first: Bound, offender: Bound) -> str | None:
    """Return a hint to cast results to the type that loses nothing of either."""
    if first.type is None or offender.type is None:
        return None
    target = lossless_type(first.type, offender.type)
    casts = [f"CAST({format_expression(each.node)} AS {target})" for each in (first, offender) if each.type != target]
    return f"write {' and '.join(casts)}" if target is not None else None
