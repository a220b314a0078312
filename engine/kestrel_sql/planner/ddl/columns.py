"""The columns of a CREATE statement: roles, reserved names, duplicates, header columns, keys and the timestamp column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kestrel_sql.errors import StatementError, TypeMismatchError
from kestrel_sql.plan.step import TimestampColumn
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.properties.with_clause import TimestampProperty
from kestrel_sql.sql.nodes.statements import Element, ElementRole, SourceKind
from kestrel_sql.types.schema import SYSTEM_NAMES, Column, Role, Schema
from kestrel_sql.types.sql_types import (
    BIGINT,
    BYTES,
    HEADERS_TYPE,
    STRING,
    TIMESTAMP,
    Array,
    Map,
    SqlType,
    Struct,
    contains_map,
    quote,
    resolve,
)

_ROLES = {
    ElementRole.NONE: Role.VALUE,
    ElementRole.KEY: Role.KEY,
    ElementRole.PRIMARY_KEY: Role.KEY,
    ElementRole.HEADERS: Role.HEADERS,
    ElementRole.HEADER: Role.HEADERS,
}


def declared_columns(
    elements: Iterable[Element], kind: SourceKind, types: Mapping[str, SqlType], config: Config
) -> tuple[Column, ...]:
    """Turn the elements of a CREATE into columns, in the order written; `types` are the custom types.

    Raises:
        StatementError: a reserved name, the wrong word for a key, or a header column of another type than it must have.
        TypeMismatchError: a custom type that does not exist, or a struct with two fields of a name.
    """
    return tuple(_column(element, kind, types, config) for element in elements)


def _column(element: Element, kind: SourceKind, types: Mapping[str, SqlType], config: Config) -> Column:
    _check_role(element, kind)
    if is_reserved(element.name, config):
        raise StatementError(
            f"'{element.name}' is a reserved column name. You cannot use it as a name for a column.", span=element.span
        )
    resolved = resolve_type(element.type, types)
    if _ROLES[element.role] is Role.HEADERS:
        _check_header(element, resolved, config)
    return Column(element.name, resolved, _ROLES[element.role], element.header_key)


def is_reserved(name: str, config: Config) -> bool:
    """Whether no column may be called `name`, in any case (rules N2)."""
    upper = name.upper()
    if upper in ("ROWPARTITION", "ROWOFFSET") and config.pseudo_column_version == 0:
        return False
    return upper in SYSTEM_NAMES


def resolve_type(sql_type: SqlType, types: Mapping[str, SqlType]) -> SqlType:
    """Replace custom types and check structs.

    Raises:
        TypeMismatchError: an unknown custom type, or a struct with two fields of a name.
    """
    resolved = resolve(sql_type, types)
    _check_structs(resolved)
    return resolved


def _check_structs(sql_type: SqlType) -> None:
    match sql_type:
        case Array(item):
            _check_structs(item)
        case Map(key, value):
            _check_structs(key)
            _check_structs(value)
        case Struct(fields):
            twice = [name for name, count in Counter(f.name for f in fields).items() if count > 1]
            if twice:
                raise TypeMismatchError(f"Duplicate field names found in STRUCT: {', '.join(map(quote, twice))}")
            for field in fields:
                _check_structs(field.type)
        case _:
            pass


def _check_role(element: Element, kind: SourceKind) -> None:
    wrong = {
        (ElementRole.KEY, SourceKind.TABLE): ("KEY", "PRIMARY KEY", "tables"),
        (ElementRole.PRIMARY_KEY, SourceKind.STREAM): ("PRIMARY KEY", "KEY", "streams"),
    }.get((element.role, kind))
    if wrong is not None:
        used, right, where = wrong
        raise StatementError(
            f"Column {quote(element.name)} is a '{used}' column: please use '{right}' for {where}.\n"
            "Tables have PRIMARY KEYs, which are unique and NON NULL.\n"
            "Streams have KEYs, which have no uniqueness or NON NULL constraints.",
            span=element.span,
        )


def _check_header(element: Element, resolved: SqlType, config: Config) -> None:
    if not config.flag("ksql.headers.columns.enabled"):
        raise StatementError(
            "Cannot create a source with header columns: ksql.headers.columns.enabled is set to false.",
            span=element.span,
        )
    whole = element.role is ElementRole.HEADERS
    expected = HEADERS_TYPE if whole else BYTES
    if resolved != expected:
        word = "HEADERS" if whole else f"HEADER('{element.header_key}')"
        raise StatementError(f"Invalid type for {word} column: expected {expected}, got {resolved}", span=element.span)


def source_schema(columns: Iterable[Column], kind: SourceKind, *, windowed: bool) -> Schema:
    """Check the columns of a source together, and order them.

    Raises:
        StatementError: no columns, two of a name, clashing header columns, or a key that is missing or contains a MAP.
    """
    schema = Schema.of(columns)
    if not schema.key and not schema.value:
        raise StatementError("The statement does not define any columns. No columns supplied.")
    if kind is SourceKind.TABLE and not schema.key:
        raise StatementError(
            "Tables require a PRIMARY KEY. Please define the PRIMARY KEY.",
            hint="mark the column that holds the key of the record: CREATE TABLE t (id BIGINT PRIMARY KEY, …)",
        )
    if windowed and not schema.key:
        raise StatementError("Windowed sources require a key column.")
    check_names(schema)
    _check_header_columns(schema.headers)
    check_key_types(schema.key)
    return schema


def check_names(schema: Schema) -> None:
    """Check that no two columns have one name.

    Raises:
        StatementError: names the columns, and whether they are of the key, of the value or of both.
    """
    for word, columns in (("key", schema.key), ("value", (*schema.value, *schema.headers))):
        counts = Counter(column.name for column in columns)
        twice = {column.name: column for column in columns if counts[column.name] > 1}
        if twice:
            raise StatementError(f"Duplicate {word} columns found in schema: {', '.join(map(str, twice.values()))}")
    keys = {column.name for column in schema.key}
    clashing = [column for column in (*schema.value, *schema.headers) if column.name in keys]
    if clashing:
        raise StatementError(f"Value columns clash with key columns: {', '.join(map(str, clashing))}")


def check_key_types(key: Iterable[Column]) -> None:
    """Check that no MAP occurs in the key.

    Raises:
        StatementError: names the first column that has one.
    """
    for column in key:
        if contains_map(column.type):
            raise StatementError(
                "Map keys, including types that contain maps, are not supported as they may lead to unexpected behavior "
                f"due to inconsistent serialization. Key column name: {quote(column.name)}. Column type: {column.type}. "
                "See https://github.com/confluentinc/ksql/issues/6621 for more."
            )


def _check_header_columns(headers: tuple[Column, ...]) -> None:
    seen: set[str | None] = set()
    for column in headers:
        if None in seen:
            raise StatementError("Schema already contains a HEADERS column.")
        if column.header_key in seen:
            raise StatementError(f"Schema already contains a HEADER('{column.header_key}') column.")
        if column.header_key is None and seen:
            raise StatementError("Schema already contains a HEADER column: a HEADERS column cannot be added.")
        seen.add(column.header_key)


def timestamp_column(timestamp: TimestampProperty | None, schema: Schema) -> TimestampColumn | None:
    """Find the column that TIMESTAMP names and check it with TIMESTAMP_FORMAT (rules L6); None without a property.

    Raises:
        StatementError: no such column, or one of a type that does not fit.
    """
    if timestamp is None:
        return None
    column = next((c for c in (*schema.key, *schema.value) if c.name == timestamp.column), None)
    if column is None:
        raise StatementError(
            f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{timestamp.column}'"
        )
    if column.type == STRING:
        if timestamp.format is None:
            raise _bad_timestamp(column)
        return TimestampColumn(column.name, timestamp.format)
    if timestamp.format is not None:
        raise StatementError(
            "'TIMESTAMP_FORMAT' set in the WITH clause can only be used when the timestamp column is of type STRING."
        )
    if column.type not in (BIGINT, TIMESTAMP):
        raise _bad_timestamp(column)
    return TimestampColumn(column.name)


def _bad_timestamp(column: Column) -> StatementError:
    return StatementError(
        f"Timestamp column, {quote(column.name)}, should be LONG(INT64), TIMESTAMP, or a String with a timestamp_format specified."
    )
