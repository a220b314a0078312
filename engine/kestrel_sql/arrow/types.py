"""The Arrow types of SQL types (`docs/architecture.md` has a table).

Arrow, as Spark takes it, has no DECIMAL of more than 38 digits or with a scale for each value, and no STRUCT without
fields. Their values are carried in structs whose first field, of a type that no SQL type has, is always NULL
(docs/adr/0038); that of a DECIMAL also has its plain text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import pyarrow as pa

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.carried import is_carried, is_wide
from kestrel_sql.types.own_scales import with_own_scales
from kestrel_sql.types.schema import Column

CARRIER, DIGITS = "_", "digits"
"""The fields of carried values, which no schema, message or answer has."""

_EMPTY = pa.struct([pa.field(CARRIER, pa.int8())])

_WIDE = pa.struct([pa.field(CARRIER, pa.int8()), pa.field(DIGITS, pa.string())])

_ARROW = {
    t.Base.BOOLEAN: pa.bool_(),
    t.Base.INTEGER: pa.int32(),
    t.Base.BIGINT: pa.int64(),
    t.Base.DOUBLE: pa.float64(),
    t.Base.STRING: pa.string(),
    t.Base.BYTES: pa.binary(),
    t.Base.TIME: pa.int32(),
    t.Base.DATE: pa.int32(),
    t.Base.TIMESTAMP: pa.int64(),
}


def to_arrow(sql_type: t.SqlType | None) -> pa.DataType:
    """Return a type as an Arrow type."""
    match sql_type:
        case None:
            return pa.string()
        case t.Primitive(base):
            return _ARROW[base]
        case t.Decimal(precision, scale):
            return _WIDE if is_wide(sql_type) else pa.decimal128(precision, scale)
        case t.Array(item):
            return pa.list_(to_arrow(item))
        case t.Map(key, value):
            return pa.map_(to_arrow(key), to_arrow(value))
        case t.Struct(()):
            return _EMPTY
        case t.Struct(fields):
            return pa.struct([pa.field(f.name, to_arrow(f.type)) for f in fields])
        case t.NamedType(unresolved):
            raise UnsupportedError(f"type {unresolved} was never resolved")
        case _:
            assert_never(sql_type)


def to_plain_arrow(sql_type: t.SqlType) -> pa.DataType | None:
    """Return the type of the arrays with which expressions compute; None if one of its values is carried."""
    plain = with_own_scales(sql_type, False)
    return None if is_carried(plain) else to_arrow(plain)


def in_form_of(array: pa.Array, sql_type: t.SqlType | None) -> pa.Array | None:
    """Return an array that was computed in the form of a type; None if that takes its values."""
    wanted = to_arrow(sql_type)
    if array.type == wanted:
        return array
    if wanted == _WIDE and pa.types.is_decimal(array.type) and array.type.scale <= PLAIN_SCALE:
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(
            [pa.nulls(len(array), pa.int8()), array.cast(pa.string())], fields=list(_WIDE), mask=mask
        )
    return None


PLAIN_SCALE = 6
"""Arrow writes DECIMALs with more places with an exponent, if they are small."""


def carries(kind: pa.DataType) -> bool:
    """Whether an Arrow type is that of carried values."""
    return kind in (_EMPTY, _WIDE)


def arrow_struct(columns: Iterable[Column]) -> pa.DataType:
    """Return the Arrow struct type of a row of `columns`."""
    return to_arrow(t.Struct(tuple(t.Field(column.name, column.type) for column in columns)))
