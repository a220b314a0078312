"""Connects the planner to the schema registry: looks up schemas as columns and registers the schemas of topics."""

from __future__ import annotations

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import RegistryError
from kestrel_sql.formats.registered.columns import columns_of, full_name_of, schema_text
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import RegisteredSchema, SchemaRegistry
from kestrel_sql.formats.serde import Side
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1
from kestrel_sql.plan.step import SerdeFeature
from kestrel_sql.planner.ddl.inference import registrations
from kestrel_sql.planner.ddl.registry_port import ColumnOptions, Registration
from kestrel_sql.types.schema import Column, Role


class RegistryLookup:
    """Implements the planner's `SchemaLookup` over a schema registry."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of `subject`, or None."""
        return self._registry.latest(subject)

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema with this id, or None."""
        return self._registry.by_id(schema_id)

    def full_name(self, schema: RegisteredSchema) -> str | None:
        """Return the full name of the record, or of the first message, in `schema`; None if it has no name."""
        return full_name_of(schema, self._registry.snapshot())

    def columns(self, schema: RegisteredSchema, options: ColumnOptions) -> tuple[Column, ...] | None:
        """Convert a schema to columns (rules F8); return None if it does not define the wanted name.

        Raises:
            RegistryError: the schema cannot be converted, or has several definitions and no name was given.
        """
        columns = columns_of(
            schema,
            options.side,
            full_name=options.full_name,
            unwrapped=options.unwrapped,
            unwrap_primitives=options.unwrap_primitives,
            keep_case=options.keep_case,
            view=self._registry.snapshot(),
        )
        if columns is None:
            return None
        role = Role.KEY if options.side is Side.KEY else Role.VALUE
        return tuple(Column(column.name, column.type, role) for column in columns)


def register_schemas(registry: SchemaRegistry, command: CreateStreamV1 | CreateTableV1, *, sink: bool) -> None:
    """Register the key and value schemas of the topic that a CREATE or, with `sink`, a CREATE AS declares.

    The key schema of a sink is frozen: a serialised key begins with its schema id and decides the partition, so a new
    id would move a key to another partition.

    Raises:
        RegistryError: a schema id does not exist, or the subject has another id for the schema.
    """
    for wanted in registrations(command.topic_name, command.formats, command.schema, sink=sink):
        if not (wanted.only_if_absent and registry.latest(wanted.subject) is not None):
            _register(registry, wanted)
            if sink and wanted.side is Side.KEY:
                registry.freeze(wanted.subject)


def delete_schemas(registry: SchemaRegistry, source: Source) -> None:
    """Delete the subjects of a source's topic, as DROP … DELETE TOPIC does (rules L5).

    Raises:
        RegistryError: the registry does not answer, or refuses.
    """
    for registration in registrations(source.topic, source.formats, source.schema, sink=False):
        registry.delete(registration.subject)


def _register(registry: SchemaRegistry, wanted: Registration) -> None:
    if wanted.schema_id is None:
        text = schema_text(
            wanted.columns,
            wanted.format,
            unwrapped=len(wanted.columns) == 1 and SerdeFeature.UNWRAP_SINGLES in wanted.features,
        )
        registry.register(wanted.subject, LANGUAGES[wanted.format.format].format, text)
        return
    known = registry.by_id(wanted.schema_id)
    if known is None:
        raise RegistryError(
            f"Schema with id {wanted.schema_id} does not exist in the Schema Registry. Subject: {wanted.subject}"
        )
    registered = registry.register(wanted.subject, known.format, known.text, known.references)
    if registered != wanted.schema_id:
        raise RegistryError(
            f"Schema id registered is {registered} which is different from provided schema id {wanted.schema_id}."
        )
