"""Checks the columns of a CREATE statement: roles, names, types, header columns and the timestamp column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kestrel_sql.errors import StatementError, TypeMismatchError, position
from kestrel_sql.plan.step import TimestampColumn
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.properties.with_clause import TimestampProperty
from kestrel_sql.sql.nodes.statements import Element, ElementRole, SourceKind
from kestrel_sql.sql.parse.parser import to_column
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


def declared_columns(
    elements: Iterable[Element], kind: SourceKind, types: Mapping[str, SqlType], config: Config
) -> tuple[Column, ...]:
    """Convert the elements of a CREATE to columns in the same order; `types` are the custom types by name.

    Raises:
        StatementError: a name is reserved, a key has the wrong keyword for the kind, or a header column the wrong type.
        TypeMismatchError: a custom type does not exist, or a struct has a field name twice.
    """
    return tuple(_column(element, kind, types, config) for element in elements)


def _column(element: Element, kind: SourceKind, types: Mapping[str, SqlType], config: Config) -> Column:
    _check_role(element, kind)
    if is_reserved(element.name, config):
        raise StatementError(
            f"'{element.name}' is a reserved column name. You cannot use it as a name for a column.", span=element.span
        )
    column = replace(to_column(element), type=resolve_type(element.type, types))
    if column.role is Role.HEADERS:
        _check_header(element, column.type, config)
    return column


def is_reserved(name: str, config: Config) -> bool:
    """Whether `name` is reserved, so no column may have it (rule N2.2)."""
    if name in ("ROWPARTITION", "ROWOFFSET") and config.pseudo_column_version == 0:
        return False
    return name in SYSTEM_NAMES


def resolve_type(sql_type: SqlType, types: Mapping[str, SqlType]) -> SqlType:
    """Resolve custom types and check structs.

    Raises:
        TypeMismatchError: a custom type does not exist, or a struct has a field name twice.
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
            duplicates = [name for name, count in Counter(f.name for f in fields).items() if count > 1]
            if duplicates:
                raise TypeMismatchError(f"Duplicate field names found in STRUCT: {', '.join(map(quote, duplicates))}")
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
        used, right, sources = wrong
        raise StatementError(
            f"{position(element.span)}Column {quote(element.name)} is a '{used}' column: please use '{right}' for"
            f" {sources}.\nTables have PRIMARY KEYs, which are unique and NON NULL.\nStreams have KEYs, which have no"
            " uniqueness or NON NULL constraints.",
            span=element.span,
        )


def _check_header(element: Element, resolved: SqlType, config: Config) -> None:
    if not config.flag("ksql.headers.columns.enabled"):
        raise StatementError(
            "Cannot create a source with header columns: ksql.headers.columns.enabled is set to false.",
            span=element.span,
        )
    all_headers = element.role is ElementRole.HEADERS
    expected = HEADERS_TYPE if all_headers else BYTES
    if resolved != expected:
        role = "HEADERS" if all_headers else f"HEADER('{element.header_key}')"
        raise StatementError(f"Invalid type for {role} column: expected {expected}, got {resolved}", span=element.span)


def source_schema(columns: Iterable[Column], kind: SourceKind, *, windowed: bool) -> Schema:
    """Check the columns of a source together and return them as a schema.

    Raises:
        StatementError: there are no columns, two have the same name, header columns clash, the key is missing or
            contains a MAP.
    """
    schema = Schema(tuple(columns))
    if not schema.columns:
        raise StatementError("The statement does not define any columns. No columns supplied.")
    if kind is SourceKind.TABLE and not schema.key:
        raise StatementError(
            "Tables require a PRIMARY KEY. Please define the PRIMARY KEY.",
            hint="mark the column of the record's key: CREATE TABLE t (id BIGINT PRIMARY KEY, …)",
        )
    if windowed and not schema.key:
        raise StatementError("Windowed sources require a key column.")
    check_names(schema)
    _check_header_columns(schema.headers)
    check_key_types(schema.key)
    return schema


def check_names(schema: Schema) -> None:
    """Check that no two columns have the same name.

    Raises:
        StatementError: names the columns, and says whether they are key columns, value columns or both.
    """
    for part, columns in (("key", schema.key), ("value", (*schema.value, *schema.headers))):
        counts = Counter(column.name for column in columns)
        duplicates = {column.name: column for column in columns if counts[column.name] > 1}
        if duplicates:
            listed = ", ".join(map(str, duplicates.values()))
            raise StatementError(f"Duplicate {part} columns found in schema: {listed}")
    keys = {column.name for column in schema.key}
    clashing = [column for column in (*schema.value, *schema.headers) if column.name in keys]
    if clashing:
        raise StatementError(f"Value columns clash with key columns: {', '.join(map(str, clashing))}")


def check_key_types(key: Iterable[Column]) -> None:
    """Check that the type of no key column contains a MAP.

    Raises:
        StatementError: names the first column whose type does.
    """
    for column in key:
        if contains_map(column.type):
            raise StatementError(
                "Map keys, including types that contain maps, are not supported as they may lead to unexpected "
                "behavior due to inconsistent serialization. "
                f"Key column name: {quote(column.name)}. Column type: {column.type}. "
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
    """Return the column of TIMESTAMP, checked against TIMESTAMP_FORMAT (rules L6); None without TIMESTAMP.

    Raises:
        StatementError: the column does not exist, or its type does not fit.
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
        f"Timestamp column, {quote(column.name)}, should be LONG(INT64), TIMESTAMP, "
        "or a String with a timestamp_format specified."
    )
