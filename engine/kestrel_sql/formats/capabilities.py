"""Describes the formats to the planner: features, properties, and the columns that each supports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kestrel_sql.errors import FormatError
from kestrel_sql.plan.step import FormatInfo, SerdeFeature
from kestrel_sql.types.conversion import base_name
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import (
    BIGINT,
    BYTES,
    DOUBLE,
    INTEGER,
    STRING,
    Array,
    Decimal,
    Map,
    Primitive,
    SqlType,
    Struct,
)

DELIMITER = "delimiter"
FULL_NAME = "fullSchemaName"
SCHEMA_ID = "schemaId"
SUBJECT_NAME = "subjectName"
UNWRAP_PRIMITIVES = "unwrapPrimitives"
NULLABLE = "nullableRepresentation"

WRAP = SerdeFeature.WRAP_SINGLES
UNWRAP = SerdeFeature.UNWRAP_SINGLES

Columns = tuple[Column, ...]
Check = Callable[[Columns], str | None]
"""Returns the reason why a format does not support columns, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatCapabilities:
    """One row of the format table of rules F1.

    `features` are the wrappings of a single column that a statement may choose. `inheritable` are the properties that
    a sink inherits from a source of the same format. `keeps_halves` says whether half of a surrogate pair stays as it
    is (rule U4.9). `check` returns why columns are not supported; `supports_key`
    whether a derived key column may have a type.
    """

    name: str
    infers_columns: bool = False
    features: frozenset[SerdeFeature] = frozenset()
    properties: frozenset[str] = frozenset()
    inheritable: frozenset[str] = frozenset()
    keeps_halves: bool = False
    check: Check
    supports_key: Callable[[SqlType], bool] = lambda _: True
    supports_many: bool = True

    @property
    def chooses_wrapping(self) -> bool:
        """Whether a single column may be wrapped or not, so that a key of one column has to say which."""
        return self.features == {WRAP, UNWRAP}


def column_list(columns: Iterable[Column]) -> str:
    """Write columns in brackets, as messages do."""
    return f"[{', '.join(map(str, columns))}]"


def _check_none(columns: Columns) -> str | None:
    return (
        f"The 'NONE' format can only be used when no columns are defined. Got: {column_list(columns)}"
        if columns
        else None
    )


_KAFKA_TYPES = frozenset({INTEGER, BIGINT, DOUBLE, STRING, BYTES})


def _check_kafka(columns: Columns) -> str | None:
    if len(columns) > 1:
        return f"The 'KAFKA' format only supports a single field. Got: {column_list(columns)}"
    unsupported = next((c for c in columns if c.type not in _KAFKA_TYPES), None)
    return f"The 'KAFKA' format does not support type '{base_name(unsupported.type)}'" if unsupported else None


def _check_delimited(columns: Columns) -> str | None:
    unsupported = next((c for c in columns if not isinstance(c.type, Primitive | Decimal)), None)
    if unsupported is None:
        return None
    return f"The 'DELIMITED' format does not support type '{base_name(unsupported.type)}', column: `{unsupported.name}`"


def _nested(sql_type: SqlType) -> Iterator[SqlType]:
    yield sql_type
    match sql_type:
        case Array(item):
            yield from _nested(item)
        case Map(key, value):
            yield from _nested(key)
            yield from _nested(value)
        case Struct(fields):
            for field in fields:
                yield from _nested(field.type)
        case _:
            pass


def _has_other_map_key(columns: Columns) -> bool:
    types = (part for column in columns for part in _nested(column.type))
    return any(isinstance(part, Map) and part.key != STRING for part in types)


def _check_json(columns: Columns) -> str | None:
    return "JSON only supports MAP types with STRING keys" if _has_other_map_key(columns) else None


def _check_protobuf(columns: Columns) -> str | None:
    return "PROTOBUF format only supports MAP types with STRING keys" if _has_other_map_key(columns) else None


def _field_names(columns: Columns) -> Iterator[str]:
    for column in columns:
        yield column.name
        for part in _nested(column.type):
            if isinstance(part, Struct):
                yield from (field.name for field in part.fields)


_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_avro(columns: Columns) -> str | None:
    if _has_other_map_key(columns):
        return "Avro only supports MAPs with STRING keys"
    for name in _field_names(columns):
        avro_name = name.replace(".", "_")
        if _AVRO_NAME.fullmatch(avro_name):
            continue
        problem = "character in" if _AVRO_NAME.match(avro_name) else "initial character"
        return f"Schema is not compatible with Avro: Illegal {problem}: {avro_name}"
    return None


def _is_primitive(sql_type: SqlType) -> bool:
    return isinstance(sql_type, Primitive)


_BOTH = frozenset({WRAP, UNWRAP})
_REGISTERED = frozenset({FULL_NAME, SCHEMA_ID})

FORMATS: Mapping[str, FormatCapabilities] = MappingProxyType(
    {
        capabilities.name: capabilities
        for capabilities in (
            FormatCapabilities(
                name="KAFKA",
                features=frozenset({UNWRAP}),
                check=_check_kafka,
                supports_key=_KAFKA_TYPES.__contains__,
                supports_many=False,
            ),
            FormatCapabilities(name="NONE", check=_check_none, supports_key=lambda _: False, supports_many=False),
            FormatCapabilities(
                name="DELIMITED",
                features=frozenset({UNWRAP}),
                properties=frozenset({DELIMITER}),
                inheritable=frozenset({DELIMITER}),
                check=_check_delimited,
                supports_key=_is_primitive,
            ),
            FormatCapabilities(name="JSON", features=_BOTH, keeps_halves=True, check=_check_json),
            FormatCapabilities(
                name="JSON_SR",
                infers_columns=True,
                features=_BOTH,
                properties=_REGISTERED,
                keeps_halves=True,
                check=_check_json,
            ),
            FormatCapabilities(
                name="AVRO", infers_columns=True, features=_BOTH, properties=_REGISTERED, check=_check_avro
            ),
            FormatCapabilities(
                name="PROTOBUF",
                infers_columns=True,
                features=frozenset({WRAP}),
                properties=_REGISTERED | {UNWRAP_PRIMITIVES, NULLABLE, SUBJECT_NAME},
                inheritable=frozenset({FULL_NAME}),
                check=_check_protobuf,
            ),
            FormatCapabilities(
                name="PROTOBUF_NOSR",
                features=_BOTH,
                properties=frozenset({UNWRAP_PRIMITIVES, NULLABLE}),
                inheritable=frozenset({UNWRAP_PRIMITIVES, NULLABLE}),
                check=_check_protobuf,
            ),
        )
    }
)


def capabilities_of(name: str) -> FormatCapabilities:
    """Return the capabilities of a format by its case-insensitive name.

    Raises:
        FormatError: there is no such format.
    """
    capabilities = FORMATS.get(name.upper())
    if capabilities is None:
        raise FormatError(f"Unknown format: {name}", hint=f"the formats are {', '.join(sorted(FORMATS))}")
    return capabilities


def check_properties(info: FormatInfo) -> None:
    """Reject properties that the format does not have.

    Raises:
        FormatError: a property is unknown, the schema name is blank, or the format is unknown.
    """
    capabilities = capabilities_of(info.format)
    unknown = [name for name, _ in info.properties if name not in capabilities.properties]
    if unknown:
        raise FormatError(f"{capabilities.name} does not support the following configs: [{', '.join(unknown)}]")
    full_name = info.property(FULL_NAME)
    if full_name is not None and not full_name.strip():
        raise FormatError(f"{FULL_NAME} cannot be empty. Format configuration: {{{FULL_NAME}={full_name}}}")
