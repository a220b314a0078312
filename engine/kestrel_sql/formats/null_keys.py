"""Names the NULL keys of maps, as Java's JSON writers do (rule L4.7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kestrel_sql.formats.serde import Row
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import STRING, Array, Map, SqlType, Struct

NULL_KEY = "null"
"""What Java's JSON writers make of a NULL key, and Arrow, which has none."""


def named_keys(columns: Sequence[Column], null: str = NULL_KEY) -> Callable[[Row], Row] | None:
    """Return what names the NULL key of a map `null`; one that is no STRING is left out. None without maps."""
    converts = [_naming(column.type, null) for column in columns]
    if not any(converts):
        return None
    return lambda values: tuple(
        value if convert is None or value is None else convert(value)
        for convert, value in zip(converts, values, strict=True)
    )


def _naming(sql_type: SqlType, null: str) -> Callable[..., object] | None:
    match sql_type:
        case Map(key, item):
            name, inner = null if key == STRING else None, _naming(item, null)
            return lambda mapping: _with_named_key(mapping, name, inner)
        case Array(item) if (inner := _naming(item, null)) is not None:
            return lambda items: [each if each is None else inner(each) for each in items]
        case Struct(fields) if any(_naming(field.type, null) for field in fields):
            inners = {field.name: _naming(field.type, null) for field in fields}
            return lambda struct: {
                name: value if value is None or (convert := inners[name]) is None else convert(value)
                for name, value in struct.items()
            }
        case _:
            return None


def _with_named_key(
    mapping: Mapping[object, object], name: str | None, inner: Callable[..., object] | None
) -> Mapping[object, object]:
    if inner is None and None not in mapping:
        return mapping
    items = ((name if key is None else key, value) for key, value in mapping.items())
    return {key: value if inner is None or value is None else inner(value) for key, value in items if key is not None}
