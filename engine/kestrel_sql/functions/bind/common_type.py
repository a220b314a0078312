"""Determines the common type of the items of a list (rules N9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal as Number

from kestrel_sql.errors import TypeMismatchError
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.java.numbers import JAVA_BLANKS, parse_decimal
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import PARSED_FROM_STRING, can_implicitly_cast, wider_number

_INT = 2**31
_LONG = 2**63
_MAX_DIGITS = 1000
"""Beyond it no DECIMAL can hold a number, whose digits would fill the memory."""
_LITERALS = (e.BooleanLiteral, e.IntegerLiteral, e.LongLiteral, e.DecimalLiteral, e.DoubleLiteral)
_HINT = "Hint: You might need to add explicit type casts."


def common_type(items: Iterable[Bound]) -> t.SqlType | None:
    """Return the type to which all `items` convert, or None if all are NULL.

    The first item that is not NULL leads: a literal takes its type where it can, other items only widen it. A STRING
    that is no literal takes the type of a date, a time or bytes beside it.

    Raises:
        TypeMismatchError: an item does not convert.
    """
    common: t.SqlType | None = None
    has_literal = False
    for item in items:
        if item.type is not None:
            merged = item.type if common is None else _merge(common, item) or _refuse(common, item)
            if has_literal and common == t.STRING and merged in PARSED_FROM_STRING:
                _refuse(t.STRING, item)
            common = merged
        has_literal = has_literal or isinstance(item.node, e.StringLiteral)
    return common


def _merge(common: t.SqlType, item: Bound) -> t.SqlType | None:
    """Return `common` widened for `item`, or None if it does not convert."""
    if item.type is None:
        return common
    if item.implicit:
        return _merge(common, item.children[0])
    if isinstance(item.node, e.StringLiteral):
        return _merge_string_literal(common, item, item.node.value)
    if common == t.STRING and isinstance(item.node, _LITERALS):
        return common
    merged = _merge_constructor(common, item)
    return _merge_types(common, item.type) if merged is None else merged


def _merge_string_literal(common: t.SqlType, item: Bound, text: str) -> t.SqlType | None:
    if t.is_numeric(common):
        return wider_number(common, _number_type(text, common, item))
    if common == t.BOOLEAN:
        word = text.strip(JAVA_BLANKS).lower()
        if not word or not any(full.startswith(word) for full in ("true", "false", "yes", "no")):
            raise _invalid(t.BOOLEAN, text, item)
        return common
    return common if common == t.STRING or common in PARSED_FROM_STRING else None


def _number_type(text: str, common: t.SqlType, item: Bound) -> t.SqlType:
    """Return the type of the number that a string writes; with a point or an exponent it is an exact DECIMAL."""
    digits = text.strip(JAVA_BLANKS)
    try:
        number = parse_decimal(digits)
    except ValueError:
        raise _invalid(common, text, item) from None
    if not number.is_finite() or abs(number.adjusted()) > _MAX_DIGITS:
        raise _invalid(common, text, item)
    if not set(digits) & set(".eE") and -_LONG <= number < _LONG:
        return t.INTEGER if -_INT <= number < _INT else t.BIGINT
    return decimal_literal_type(Number(f"{number:f}"))


def decimal_literal_type(number: Number) -> t.Decimal:
    """Return the type of an exact number as written; it has one digit before the point even if that is zero."""
    scale = max(0, -int(number.as_tuple().exponent))
    if -1 < number < 1:
        return t.Decimal(scale + 1, scale) if scale else t.Decimal(1, 0)
    return t.Decimal(max(len(number.as_tuple().digits), scale), scale)


def _merge_constructor(common: t.SqlType, item: Bound) -> t.SqlType | None:
    """Merge the type of a constructor item by item, so that literals in it can convert too."""
    match common, item.node:
        case t.Array(inner), e.ArrayConstructor():
            merged = _merge_all(inner, item.children)
            return None if merged is None else t.Array(merged)
        case t.Map(key, value), e.MapConstructor():
            keys, values = _merge_all(key, item.children[::2]), _merge_all(value, item.children[1::2])
            return None if keys is None or values is None else t.Map(keys, values)
        case t.Struct(fields), e.StructConstructor(entries):
            return _merge_struct_items(
                fields, {name: child for (name, _), child in zip(entries, item.children, strict=True)}
            )
        case _:
            return None


def _merge_struct_items(fields: tuple[t.Field, ...], items: Mapping[str, Bound]) -> t.SqlType | None:
    """Merge the items of a STRUCT constructor; its fields stand before those that only `fields` have."""
    known = {field.name: field.type for field in fields}
    merged: list[t.Field] = []
    for name, item in items.items():
        kind = _merge(known.pop(name), item) if name in known else item.type
        if kind is None and item.type is not None:
            return None
        if kind is not None:
            merged.append(t.Field(name, kind))
    return t.Struct((*merged, *(t.Field(name, kind) for name, kind in known.items())))


def _merge_all(common: t.SqlType, items: Iterable[Bound]) -> t.SqlType | None:
    merged: t.SqlType | None = common
    for item in items:
        merged = None if merged is None else _merge(merged, item)
    return merged


def _merge_types(common: t.SqlType, other: t.SqlType) -> t.SqlType | None:
    if common == other:
        return common
    if t.is_numeric(common) and t.is_numeric(other):
        return wider_number(common, other)
    match common, other:
        case t.Array(item), t.Array(other_item):
            inner = _merge_types(item, other_item)
            return None if inner is None else t.Array(inner)
        case t.Map(key, value), t.Map(other_key, other_value):
            inner_key, inner_value = _merge_types(key, other_key), _merge_types(value, other_value)
            return None if inner_key is None or inner_value is None else t.Map(inner_key, inner_value)
        case t.Struct(), t.Struct():
            return _merge_structs(common, other)
        case _:
            return common if can_implicitly_cast(other, common) else other if other in _parsed_from(common) else None


def _parsed_from(common: t.SqlType) -> frozenset[t.SqlType]:
    return PARSED_FROM_STRING if common == t.STRING else frozenset()


def _merge_structs(common: t.Struct, other: t.Struct) -> t.SqlType | None:
    fields = []
    for mine in common.fields:
        theirs = other.field(mine.name)
        merged = mine.type if theirs is None else _merge_types(mine.type, theirs.type)
        if merged is None:
            return None
        fields.append(t.Field(mine.name, merged))
    return t.Struct((*fields, *(field for field in other.fields if common.field(field.name) is None)))


def _refuse(common: t.SqlType, item: Bound) -> t.SqlType:
    raise TypeMismatchError(
        f"operator does not exist: {common} = {item.type} ({format_expression(item.node)})\n{_HINT}",
        span=item.node.span,
    )


def _invalid(common: t.SqlType, text: str, item: Bound) -> TypeMismatchError:
    return TypeMismatchError(f'invalid input syntax for type {common}: "{text}".', span=item.node.span)
