"""Determines the common type of the items of a list (rules N9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal as Number

from kestrel_sql.errors import TypeMismatchError
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.java.numbers import JAVA_BLANKS, parse_decimal
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
_MAX_DIGITS = 1000
"""Beyond it no DECIMAL can hold a number, whose digits would fill the memory."""
_LITERALS = (BooleanLiteral, IntegerLiteral, LongLiteral, DecimalLiteral, DoubleLiteral)
_HINT = "Hint: You might need to add explicit type casts."


def common_type(items: Iterable[Bound]) -> SqlType | None:
    """Return the type to which all `items` convert, or None if all are NULL.

    The first item that is not NULL leads: a literal takes its type where it can, other items only widen it. A STRING
    that is no literal takes the type of a date, a time or bytes beside it.

    Raises:
        TypeMismatchError: an item does not convert.
    """
    common: SqlType | None = None
    has_literal = False
    for item in items:
        if item.type is not None:
            merged = item.type if common is None else _merge(common, item) or _refuse(common, item)
            if has_literal and common == STRING and merged in PARSED_FROM_STRING:
                _refuse(STRING, item)
            common = merged
        has_literal = has_literal or isinstance(item.node, StringLiteral)
    return common


def _merge(common: SqlType, item: Bound) -> SqlType | None:
    """Return `common` widened for `item`, or None if it does not convert."""
    if item.type is None:
        return common
    if item.implicit:
        return _merge(common, item.children[0])
    if isinstance(item.node, StringLiteral):
        return _merge_string_literal(common, item, item.node.value)
    if common == STRING and isinstance(item.node, _LITERALS):
        return common
    merged = _merge_constructor(common, item)
    return _merge_types(common, item.type) if merged is None else merged


def _merge_string_literal(common: SqlType, item: Bound, text: str) -> SqlType | None:
    if is_numeric(common):
        return wider_number(common, _number_type(text, common, item))
    if common == BOOLEAN:
        word = text.strip(JAVA_BLANKS).lower()
        if not word or not any(full.startswith(word) for full in ("true", "false", "yes", "no")):
            raise _invalid(BOOLEAN, text, item)
        return common
    return common if common == STRING or common in PARSED_FROM_STRING else None


def _number_type(text: str, common: SqlType, item: Bound) -> SqlType:
    """Return the type of the number that a string writes; with a point or an exponent it is an exact DECIMAL."""
    digits = text.strip(JAVA_BLANKS)
    try:
        number = parse_decimal(digits)
    except ValueError:
        raise _invalid(common, text, item) from None
    if not number.is_finite() or abs(number.adjusted()) > _MAX_DIGITS:
        raise _invalid(common, text, item)
    if not set(digits) & set(".eE") and -_LONG <= number < _LONG:
        return INTEGER if -_INT <= number < _INT else BIGINT
    return decimal_literal_type(Number(f"{number:f}"))


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
            merged = _merge_all(inner, item.children)
            return None if merged is None else Array(merged)
        case Map(key, value), MapConstructor():
            keys, values = _merge_all(key, item.children[::2]), _merge_all(value, item.children[1::2])
            return None if keys is None or values is None else Map(keys, values)
        case Struct(fields), StructConstructor(entries):
            return _merge_struct_items(
                fields, {name: child for (name, _), child in zip(entries, item.children, strict=True)}
            )
        case _:
            return None


def _merge_struct_items(fields: tuple[Field, ...], items: Mapping[str, Bound]) -> SqlType | None:
    """Merge the items of a STRUCT constructor; its fields stand before those that only `fields` have."""
    known = {field.name: field.type for field in fields}
    merged: list[Field] = []
    for name, item in items.items():
        kind = _merge(known.pop(name), item) if name in known else item.type
        if kind is None and item.type is not None:
            return None
        if kind is not None:
            merged.append(Field(name, kind))
    return Struct((*merged, *(Field(name, kind) for name, kind in known.items())))


def _merge_all(common: SqlType, items: Iterable[Bound]) -> SqlType | None:
    merged: SqlType | None = common
    for item in items:
        merged = None if merged is None else _merge(merged, item)
    return merged


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
            return common if can_implicitly_cast(other, common) else other if other in _parsed_from(common) else None


def _parsed_from(common: SqlType) -> frozenset[SqlType]:
    return PARSED_FROM_STRING if common == STRING else frozenset()


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
