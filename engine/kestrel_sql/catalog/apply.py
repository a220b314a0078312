"""Applies DDL commands to a catalog (rules P2)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import assert_never

from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.errors import StatementError
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
from kestrel_sql.types.schema import Schema

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
        case CreateStreamV1():
            return _create(catalog, command, SourceKind.STREAM, created_by, statement_text, derived_from)
        case CreateTableV1():
            return _create(catalog, command, SourceKind.TABLE, created_by, statement_text, derived_from)
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
            return _alter(catalog, command, statement_text)
        case _:
            assert_never(command)


def _create(
    catalog: Catalog,
    command: CreateStreamV1 | CreateTableV1,
    kind: SourceKind,
    created_by: str | None,
    statement_text: str,
    derived_from: tuple[str, ...],
) -> Catalog:
    if command.source_name in catalog.sources and not command.or_replace:
        return catalog
    return catalog.with_source(
        Source(
            name=command.source_name,
            kind=kind,
            schema=command.schema,
            topic=command.topic_name,
            formats=command.formats,
            timestamp_column=command.timestamp_column,
            window=command.window_info,
            is_source=command.is_source,
            created_by=created_by,
            derived_from=derived_from,
            statement_text=statement_text,
        )
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


def _alter(catalog: Catalog, command: AlterSourceV1, statement_text: str) -> Catalog:
    source = catalog.sources.get(command.source_name)
    if source is None:
        raise catalog.missing_source(f"Source {command.source_name} does not exist.", command.source_name, None)
    _check_alterable(source, command.ksql_type)
    columns = list(source.schema.columns)
    for column in command.new_columns:
        if any(column.name == known.name for known in columns):
            raise StatementError(
                f"Cannot add column `{column.name}` to schema. A column with the same name already exists."
            )
        columns.append(column)
    return catalog.with_source(replace(source, schema=Schema(tuple(columns)), statement_text=statement_text))


def _check_alterable(source: Source, kind: SourceKind) -> None:
    if source.kind is not kind:
        raise StatementError(
            f"Incompatible data source type is {source.kind.value}, but statement was ALTER {kind.value}"
        )
    if source.is_source:
        kind_name = source.kind.value.lower()
        raise StatementError(
            f"Cannot alter {kind_name} '{source.name}': ALTER operations are not supported on source {kind_name}s."
        )
    if source.created_by is not None:
        raise StatementError("ALTER command is not supported for CREATE ... AS statements.")
