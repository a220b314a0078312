"""Determines the common type of the items of a list (rules N9)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal as Number
from decimal import InvalidOperation

from kestrel_sql.errors import TypeMismatchError
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import (
    ArrayConstructor,
    BooleanLiteral,
    DecimalLiteral,
    DoubleLiteral,
    IntegerLiteral,
    LongLiteral,
    MapConstructor,
    StringLiteral,
    StructConstructor,
)
from kestrel_sql.types.conversion import PARSED_FROM_STRING, can_implicitly_cast, wider_number
from kestrel_sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
    is_numeric,
)

_INT = 2**31
_LONG = 2**63
_LITERALS = (BooleanLiteral, IntegerLiteral, LongLiteral, DecimalLiteral, DoubleLiteral)
_HINT = "Hint: You might need to add explicit type casts."


def common_type(items: Iterable[Bound]) -> SqlType | None:
    """Return the type to which all `items` convert, or None if all are NULL.

    A string literal takes the type of its neighbours. Another literal becomes a STRING beside a STRING that is not a
    literal.

    Raises:
        TypeMismatchError: an item does not convert.
    """
    typed = [item for item in items if item.type is not None]
    not_strings = [item for item in typed if not isinstance(item.node, StringLiteral)]
    if not not_strings:
        return typed[0].type if typed else None
    common = not_strings[0].type
    for item in typed:
        common = _merge(common, item)
    return common


def _merge(common: SqlType | None, item: Bound) -> SqlType | None:
    if common is None or item.type is None:
        return common or item.type
    if isinstance(item.node, StringLiteral):
        return _merge_string_literal(common, item, item.node.value)
    if common == STRING and isinstance(item.node, _LITERALS):
        return common
    return _merge_constructor(common, item) or _merge_types(common, item.type) or _refuse(common, item)


def _merge_string_literal(common: SqlType, item: Bound, text: str) -> SqlType:
    if is_numeric(common):
        return wider_number(common, _number_type(text, common, item))
    if common == BOOLEAN:
        word = text.strip().lower()
        if not word or not any(full.startswith(word) for full in ("true", "false", "yes", "no")):
            raise _invalid(BOOLEAN, text, item)
        return common
    if common == STRING or common in PARSED_FROM_STRING:
        return common
    return _refuse(common, item)


def _number_type(text: str, common: SqlType, item: Bound) -> SqlType:
    digits = text.strip()
    try:
        number = Number(digits)
    except InvalidOperation:
        raise _invalid(common, text, item) from None
    if not number.is_finite():
        raise _invalid(common, text, item)
    if "e" in digits.lower():
        return DOUBLE
    if "." not in digits and -_LONG <= number < _LONG:
        return INTEGER if -_INT <= number < _INT else BIGINT
    return decimal_literal_type(number)


def decimal_literal_type(number: Number) -> Decimal:
    """Return the type of an exact number as written; it has one digit before the point even if that is zero."""
    scale = max(0, -int(number.as_tuple().exponent))
    if -1 < number < 1:
        return Decimal(scale + 1, scale) if scale else Decimal(1, 0)
    return Decimal(max(len(number.as_tuple().digits), scale), scale)


def _merge_constructor(common: SqlType, item: Bound) -> SqlType | None:
    """Merge the type of a constructor item by item, so that literals in it can convert too."""
    match common, item.node:
        case Array(inner), ArrayConstructor():
            return Array(_merge_all(inner, item.children))
        case Map(key, value), MapConstructor():
            return Map(_merge_all(key, item.children[::2]), _merge_all(value, item.children[1::2]))
        case Struct(fields), StructConstructor(entries):
            known = {f.name: f.type for f in fields}
            named = [(name, child) for (name, _), child in zip(entries, item.children, strict=True)]
            merged = [
                (name, _merge_all(known.pop(name), (child,)) if name in known else child.type) for name, child in named
            ]
            return Struct(tuple(Field(name, kind) for name, kind in (*merged, *known.items()) if kind is not None))
        case _:
            return None


def _merge_all(common: SqlType, items: Iterable[Bound]) -> SqlType:
    for item in items:
        common = _merge(common, item) or common
    return common


def _merge_types(common: SqlType, other: SqlType) -> SqlType | None:
    if common == other:
        return common
    if is_numeric(common) and is_numeric(other):
        return wider_number(common, other)
    match common, other:
        case Array(item), Array(other_item):
            inner = _merge_types(item, other_item)
            return None if inner is None else Array(inner)
        case Map(key, value), Map(other_key, other_value):
            inner_key, inner_value = _merge_types(key, other_key), _merge_types(value, other_value)
            return None if inner_key is None or inner_value is None else Map(inner_key, inner_value)
        case Struct(), Struct():
            return _merge_structs(common, other)
        case _:
            return common if can_implicitly_cast(other, common) and other != STRING else None


def _merge_structs(common: Struct, other: Struct) -> SqlType | None:
    fields = []
    for mine in common.fields:
        theirs = other.field(mine.name)
        merged = mine.type if theirs is None else _merge_types(mine.type, theirs.type)
        if merged is None:
            return None
        fields.append(Field(mine.name, merged))
    return Struct((*fields, *(field for field in other.fields if common.field(field.name) is None)))


def _refuse(common: SqlType, item: Bound) -> SqlType:
    raise TypeMismatchError(
        f"operator does not exist: {common} = {item.type} ({format_expression(item.node)})\n{_HINT}",
        span=item.node.span,
    )


def _invalid(common: SqlType, text: str, item: Bound) -> TypeMismatchError:
    return TypeMismatchError(f'invalid input syntax for type {common}: "{text}".', span=item.node.span)
