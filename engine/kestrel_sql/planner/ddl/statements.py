"""Plans the statements that change the catalog without a query."""

from __future__ import annotations

import msgspec

from kestrel_sql.catalog.apply import alterable_source, check_kind, source_of, with_columns
from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.catalog.upgrade import check_source_upgrade
from kestrel_sql.errors import StatementError
from kestrel_sql.formats.registry.memory import SchemaRegistry
from kestrel_sql.plan.commands import (
    AlterSourceV1,
    CreateStreamV1,
    CreateTableV1,
    DropSourceV1,
    DropTypeV1,
    RegisterTypeV1,
)
from kestrel_sql.plan.step import Formats, TimestampColumn, WindowInfo
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.ddl.columns import check_names, declared_columns, resolve_type, source_schema, timestamp_column
from kestrel_sql.planner.ddl.inference import Inferred, infer_source
from kestrel_sql.planner.properties.serdes import source_format_infos, source_formats, validate_formats
from kestrel_sql.planner.properties.with_clause import check_retention, source_properties
from kestrel_sql.sql.nodes.statements import (
    AlterSource,
    CreateAs,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    SourceKind,
)
from kestrel_sql.types.schema import Column, Role, Schema

CreateCommand = CreateStreamV1 | CreateTableV1


class SourceUse(msgspec.Struct, frozen=True, kw_only=True):
    """What uses a source: streams and tables made from it, and the ids of INSERT INTO that read or write it."""

    sources: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()


UNUSED = SourceUse()


def plan_create_source(
    statement: CreateSource, catalog: Catalog, config: Config, registry: SchemaRegistry
) -> CreateCommand | None:
    """Plan CREATE STREAM|TABLE over a topic; return None if it exists and the statement says IF NOT EXISTS.

    Raises:
        StatementError: the statement breaks one of rules L5, L6, N11 or F8.
    """
    if not may_create(statement, catalog, config):
        return None
    properties = source_properties(statement.properties)
    check_retention(statement.kind, properties.topic, expires=False)
    infos = source_format_infos(statement.name, properties, config)
    declared = declared_columns(statement.elements, statement.kind, catalog.types, config)
    inferred = infer_source(
        properties,
        infos,
        registry,
        has_key=any(column.role is Role.KEY for column in declared),
        has_value=any(column.role is Role.VALUE for column in declared),
    )
    schema = source_schema(_all_columns(declared, inferred), statement.kind, windowed=properties.window is not None)
    command = create_command(
        statement,
        schema=schema,
        topic=properties.topic.name or "",
        formats=source_formats(statement.name, inferred.properties, schema, config),
        timestamp=timestamp_column(properties.timestamp, schema),
        window=properties.window,
        is_source=statement.is_source,
    )
    existing = catalog.sources.get(statement.name)
    if existing is not None:
        check_source_upgrade(existing, source_of(command))
    return command


def _all_columns(declared: tuple[Column, ...], inferred: Inferred) -> tuple[Column, ...]:
    """Return the columns in the order of the schema: as declared, with inference headers, key, value."""
    if not (inferred.key or inferred.value):
        return declared
    by_role = {role: tuple(c for c in declared if c.role is role) for role in Role}
    return (*by_role[Role.HEADERS], *(inferred.key or by_role[Role.KEY]), *(inferred.value or by_role[Role.VALUE]))


def create_command(
    statement: CreateSource | CreateAs,
    *,
    schema: Schema,
    topic: str,
    formats: Formats,
    timestamp: TimestampColumn | None = None,
    window: WindowInfo | None = None,
    is_source: bool = False,
) -> CreateCommand:
    """Return the command that registers the source or sink of a statement."""
    command = CreateStreamV1 if statement.kind is SourceKind.STREAM else CreateTableV1
    return command(
        source_name=statement.name,
        schema=schema,
        timestamp_column=timestamp,
        topic_name=topic,
        formats=formats,
        window_info=window,
        or_replace=statement.or_replace,
        is_source=is_source,
    )


def may_create(statement: CreateSource | CreateAs, catalog: Catalog, config: Config) -> bool:
    """Check the name of a CREATE or CREATE AS; return False if it exists and the statement says IF NOT EXISTS.

    Raises:
        StatementError: the name is taken, OR REPLACE is disabled, or OR REPLACE names a read-only source.
    """
    existing = catalog.sources.get(statement.name)
    kind = statement.kind.value.lower()
    is_source = isinstance(statement, CreateSource) and statement.is_source
    if statement.or_replace:
        if is_source or (existing is not None and existing.is_source):
            raise StatementError(
                f"Cannot add {kind} '{statement.name}': CREATE OR REPLACE is not supported on source {kind}s."
            )
        if not config.flag("ksql.create.or.replace.enabled"):
            raise StatementError(
                f"Cannot add {kind} '{statement.name}': CREATE OR REPLACE is disabled, "
                "ksql.create.or.replace.enabled is set to false."
            )
        return True
    if existing is None:
        return True
    if statement.if_not_exists:
        return False
    existing_kind = existing.kind.value.lower()
    raise StatementError(f"Cannot add {kind} '{statement.name}': A {existing_kind} with the same name already exists")


def plan_drop(
    statement: DropSource, catalog: Catalog, use: SourceUse = UNUSED, *, sharing_topic: tuple[str, ...] = ()
) -> DropSourceV1 | None:
    """Plan DROP STREAM|TABLE; return None if it does not exist and the statement says IF EXISTS.

    `use` is what uses the source, apart from its own CREATE AS query. `sharing_topic` are the other sources over its
    topic, for which DELETE TOPIC is refused.

    Raises:
        UnknownSourceError: the source does not exist.
        StatementError: the source has the other kind, is in use, or its topic cannot be deleted.
    """
    source = catalog.sources.get(statement.name)
    if source is None:
        if statement.if_exists:
            return None
        message = f"{statement.kind.value.capitalize()} {statement.name} does not exist."
        raise catalog.missing_source(message, statement.name, statement.span)
    check_kind(source, statement.kind, "DROP")
    if statement.delete_topic:
        _check_topic_deletion(source, sharing_topic)
    if use.readers or use.writers:
        raise StatementError(
            f"Cannot drop {source.name}.\n"
            f"The following queries read from this source: [{', '.join(use.readers)}].\n"
            f"The following queries write into this source: [{', '.join(use.writers)}].\n"
            f"You need to terminate them before dropping {source.name}."
        )
    if use.sources:
        raise StatementError(
            f"Cannot drop {source.name}.\n"
            f"The following streams and/or tables read from this source: [{', '.join(use.sources)}].\n"
            f"You need to drop them before dropping {source.name}."
        )
    return DropSourceV1(source_name=source.name)


def _check_topic_deletion(source: Source, sharing_topic: tuple[str, ...]) -> None:
    if source.is_source:
        raise StatementError(f"Cannot delete topic for read-only source: {source.name}")
    if sharing_topic:
        raise StatementError(
            f"Refusing to delete topic {source.topic}. Found other data sources that use it: {', '.join(sharing_topic)}"
        )


def plan_alter(statement: AlterSource, catalog: Catalog) -> AlterSourceV1:
    """Plan ALTER STREAM|TABLE … ADD COLUMN.

    Raises:
        UnknownSourceError: the source does not exist.
        StatementError: the source has the other kind, is read-only or the result of a CREATE AS, or has such a column.
    """
    source = alterable_source(catalog, statement.name, statement.kind, statement.span)
    added = tuple(Column(name, resolve_type(sql_type, catalog.types)) for name, sql_type in statement.columns)
    altered = with_columns(source, added)
    check_names(altered.schema)
    validate_formats(altered.formats, altered.schema)
    return AlterSourceV1(source_name=statement.name, ksql_type=statement.kind, new_columns=added)


def plan_create_type(statement: CreateType, catalog: Catalog) -> RegisterTypeV1 | None:
    """Plan CREATE TYPE; return None if it exists and the statement says IF NOT EXISTS.

    Raises:
        StatementError: the name is taken.
        TypeMismatchError: the type uses a type that does not exist.
    """
    known = catalog.types.get(statement.name)
    if known is not None:
        if statement.if_not_exists:
            return None
        raise StatementError(
            f"Cannot register custom type '{statement.name}' since it is already registered with type: {known}"
        )
    return RegisterTypeV1(type=resolve_type(statement.type, catalog.types), type_name=statement.name)


def plan_drop_type(statement: DropType, catalog: Catalog) -> DropTypeV1 | None:
    """Plan DROP TYPE; return None if it does not exist and the statement says IF EXISTS.

    Raises:
        StatementError: the type does not exist.
    """
    if statement.name in catalog.types:
        return DropTypeV1(type_name=statement.name)
    if statement.if_exists:
        return None
    raise StatementError(f"Type {statement.name} does not exist.", span=statement.span)
