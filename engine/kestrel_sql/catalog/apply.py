"""Applies DDL commands to a catalog (rules P2)."""

from __future__ import annotations

import re
from typing import assert_never

from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.errors import Span, StatementError
from kestrel_sql.plan.commands import (
    AlterSourceV1,
    CreateKafkaSourceV1,
    CreateStreamV1,
    CreateTableV1,
    DdlCommand,
    DropSourceV1,
    DropTypeV1,
    RegisterTypeV1,
)
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.schema import Column, Schema

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def apply_command(
    catalog: Catalog,
    command: DdlCommand,
    *,
    created_by: str | None,
    statement_text: str,
    derived_from: tuple[str, ...] = (),
) -> Catalog:
    """Return the catalog after `command`.

    `created_by` is the id of the CREATE AS query in the same statement, `derived_from` names the sources that it reads.

    The planner has checked the command, so most checks are not repeated: creating an existing name without OR REPLACE,
    or dropping an unknown one, leaves the catalog unchanged.

    Raises:
        UnknownSourceError: ALTER of a source that does not exist.
        StatementError: ALTER of the wrong kind, of a CREATE AS or read-only source, or with a column that exists.
    """
    match command:
        case CreateStreamV1() | CreateTableV1():
            if command.source_name in catalog.sources and not command.or_replace:
                return catalog
            source = source_of(command, created_by=created_by, statement_text=statement_text)
            return catalog.with_source(replace(source, derived_from=derived_from))
        case CreateKafkaSourceV1():
            known = command.source_name in catalog.sources
            return catalog if known else catalog.with_source(kafka_source(command, statement_text=statement_text))
        case DropSourceV1():
            return catalog.without_source(command.source_name)
        case RegisterTypeV1():
            return catalog if command.type_name in catalog.types else catalog.with_type(command.type_name, command.type)
        case DropTypeV1():
            return catalog.without_type(command.type_name)
        case AlterSourceV1():
            source = alterable_source(catalog, command.source_name, command.ksql_type)
            source = with_columns(source, command.new_columns)
            return catalog.with_source(replace(source, statement_text=statement_text))
        case _:
            assert_never(command)


def source_of(
    command: CreateStreamV1 | CreateTableV1, *, created_by: str | None = None, statement_text: str = ""
) -> Source:
    """Return the catalog entry that a command registers; `created_by` is the id of the query that writes it."""
    return Source(
        name=command.source_name,
        kind=SourceKind.STREAM if isinstance(command, CreateStreamV1) else SourceKind.TABLE,
        schema=command.schema,
        topic=command.topic_name,
        formats=command.formats,
        timestamp_column=command.timestamp_column,
        window=command.window_info,
        is_source=command.is_source,
        created_by=created_by,
        statement_text=statement_text,
    )


def check_topic(name: str) -> None:
    """Check a topic's name in a new statement; stored plans may have any (rule L6.23).

    Raises:
        StatementError: Kafka has no topic of this name.
    """
    if _TOPIC.fullmatch(name) is None or name in (".", ".."):
        raise StatementError(
            f"Kafka has no topic '{name}'.",
            hint="a name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-', and is neither '.' nor '..'",
        )


def kafka_source(command: CreateKafkaSourceV1, *, statement_text: str = "") -> Source:
    """Return the catalog entry that CREATE SOURCE … FROM KAFKA registers."""
    return Source(
        name=command.source_name,
        kind=command.kind,
        schema=command.schema,
        topic=command.topic_name,
        formats=command.formats,
        is_source=True,
        statement_text=statement_text,
        ingestion=command.ingestion,
    )


def alterable_source(catalog: Catalog, name: str, kind: SourceKind, span: Span | None = None) -> Source:
    """Return a source to which ALTER may add columns.

    Raises:
        UnknownSourceError: it does not exist.
        StatementError: it has the other kind, is read-only or the result of a CREATE AS.
    """
    source = catalog.sources.get(name)
    if source is None:
        raise catalog.missing_source(f"Source {name} does not exist.", name, span)
    check_kind(source, kind, "ALTER")
    kind_name = source.kind.value.lower()
    if source.is_source:
        raise StatementError(
            f"Cannot alter {kind_name} '{source.name}': ALTER operations are not supported on source {kind_name}s."
        )
    if source.created_by is not None:
        raise StatementError("ALTER command is not supported for CREATE ... AS statements.")
    return source


def with_columns(source: Source, added: tuple[Column, ...]) -> Source:
    """Return the source with value columns appended.

    Raises:
        StatementError: the source has a column of that name.
    """
    schema = source.schema
    for column in added:
        if schema.find(column.name) is not None:
            raise StatementError(
                f"Cannot add column `{column.name}` to schema. A column with the same name already exists."
            )
        schema = Schema((*schema.columns, column))
    return replace(source, schema=schema)


def check_kind(source: Source, kind: SourceKind, verb: str) -> None:
    """Check that a statement names the kind that a source has.

    Raises:
        StatementError: it has the other kind.
    """
    if source.kind is not kind:
        raise StatementError(
            f"Incompatible data source type is {source.kind.value}, but statement was {verb} {kind.value}"
        )
