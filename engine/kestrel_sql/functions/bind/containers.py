"""Types constructors of arrays, maps and structs, and access to their parts (rules L4.7)."""

from __future__ import annotations

from kestrel_sql.errors import TypeMismatchError, UnknownColumnError, did_you_mean
from kestrel_sql.functions.bind.common_type import common_type
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.bind.operators import converted, implicitly_cast
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types.conversion import base_name
from kestrel_sql.types.sql_types import BOOLEAN, INTEGER, Array, Field, Map, SqlType, Struct, is_numeric

_SEE = "(see https://github.com/confluentinc/ksql/issues/4239)"
_ALL_NULL = f"{_SEE}. As a workaround, you may cast a NULL value to the desired type."


def in_list(node: e.InList, children: tuple[Bound, ...]) -> Bound:
    """Type an IN; convert operand and items to their common type.

    Raises:
        TypeMismatchError: there is no common type.
    """
    target = common_type(children)
    return Bound(node, BOOLEAN, tuple(converted(child, target) for child in children))


def array(node: e.ArrayConstructor, items: tuple[Bound, ...]) -> Bound:
    """Type ARRAY[…].

    Raises:
        TypeMismatchError: there are no items, only NULLs, or items without a common type.
    """
    if not items:
        raise TypeMismatchError(
            f"Array constructor cannot be empty. Please supply at least one element {_SEE}.", span=node.span
        )
    item = common_type(items)
    if item is None:
        raise TypeMismatchError(f"Cannot construct an array with all NULL elements {_ALL_NULL}", span=node.span)
    return Bound(node, Array(item), tuple(implicitly_cast(child, item) for child in items))


def map_(node: e.MapConstructor, children: tuple[Bound, ...]) -> Bound:
    """Type MAP(…); `children` alternate between keys and values.

    Raises:
        TypeMismatchError: there are no entries, only NULL keys or values, or no common type.
    """
    if not children:
        raise TypeMismatchError(
            f"Map constructor cannot be empty. Please supply at least one key value pair {_SEE}.", span=node.span
        )
    key = _entry_type(node, "keys", children[::2])
    value = _entry_type(node, "values", children[1::2])
    return Bound(
        node, Map(key, value), tuple(implicitly_cast(child, (key, value)[i % 2]) for i, child in enumerate(children))
    )


def _entry_type(node: e.MapConstructor, part: str, items: tuple[Bound, ...]) -> SqlType:
    entry_type = common_type(items)
    if entry_type is None:
        raise TypeMismatchError(f"Cannot construct a map with all NULL {part} {_ALL_NULL}", span=node.span)
    return entry_type


def struct(node: e.StructConstructor, values: tuple[Bound, ...]) -> Bound:
    """Type STRUCT(…).

    Raises:
        TypeMismatchError: a name occurs twice, or a field is an untyped NULL.
    """
    names = [name for name, _ in node.fields]
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise TypeMismatchError(f"Duplicate field names found in STRUCT: '{twice[0]}'.", span=node.span)
    fields = []
    for name, value in zip(names, values, strict=True):
        if value.type is None:
            raise TypeMismatchError(
                f"Can't infer a type of null for field '{name}'. "
                "Please explicitly cast it to a required type, e.g. CAST(null AS VARCHAR).",
                span=value.node.span or node.span,
            )
        fields.append(Field(name, value.type))
    return Bound(node, Struct(tuple(fields)), values)


def subscript(node: e.Subscript, children: tuple[Bound, ...]) -> Bound:
    """Type `base[index]`; convert the index of an array to INTEGER.

    Raises:
        TypeMismatchError: `base` is neither an array nor a map, or an array's index is not a number.
    """
    base, index = children
    match base.type:
        case Array(item):
            if index.type is not None and not is_numeric(index.type):
                raise TypeMismatchError(
                    f"Array index must be INTEGER, but {format_expression(index.node)} is {index.type}", span=node.span
                )
            return Bound(node, item, (base, implicitly_cast(index, INTEGER)))
        case Map(_, value):
            return Bound(node, value, children)
        case other:
            hint = "Use the dereference operator for STRUCTS: '->'" if isinstance(other, Struct) else None
            raise TypeMismatchError(
                f"Subscript expression ({format_expression(node)}) do not apply to {base_name(other)}.",
                span=node.span,
                hint=hint,
            )


def dereference(node: e.Dereference, children: tuple[Bound, ...]) -> Bound:
    """Type `base->field`.

    Raises:
        TypeMismatchError: `base` is not a struct.
        UnknownColumnError: the struct has no such field.
    """
    (base,) = children
    if not isinstance(base.type, Struct):
        raise TypeMismatchError(f"Expected STRUCT type, got: {base_name(base.type)}", span=node.span)
    field = base.type.field(node.field)
    if field is None:
        hint = did_you_mean(node.field, (known.name for known in base.type.fields))
        raise UnknownColumnError(
            f"Could not find field '{node.field}' in '{format_expression(base.node)}'.", span=node.span, hint=hint
        )
    return Bound(node, field.type, (base,))
