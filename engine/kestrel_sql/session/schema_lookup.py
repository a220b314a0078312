"""Between planner and schema registry: schemas looked up as columns, and registered for the topics that statements declare."""

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
    """The registry as the planner sees it (`SchemaLookup`)."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Find the newest schema of `subject`, or None."""
        return self._registry.latest(subject)

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Find the schema with that id, or None."""
        return self._registry.by_id(schema_id)

    def full_name(self, schema: RegisteredSchema) -> str | None:
        """Give the name of the record or of the first message of `schema`, None where it has none."""
        return full_name_of(schema, self._registry.snapshot())

    def columns(self, schema: RegisteredSchema, options: ColumnOptions) -> tuple[Column, ...] | None:
        """Turn a schema into columns (rules F8); None if it has no definition of the wanted name.

        Raises:
            RegistryError: a schema of which no column can be made, or with several definitions and none chosen.
        """
        found = columns_of(
            schema,
            options.side,
            full_name=options.full_name,
            unwrapped=options.unwrapped,
            keep_case=options.keep_case,
            view=self._registry.snapshot(),
        )
        if found is None:
            return None
        role = Role.KEY if options.side is Side.KEY else Role.VALUE
        return tuple(Column(column.name, column.type, role) for column in found)


def register_schemas(registry: SchemaRegistry, command: CreateStreamV1 | CreateTableV1, *, sink: bool) -> None:
    """Register the schemas of the topic that a CREATE (`sink` False) or CREATE AS declares; keys of the latter keep theirs.

    Partitions follow from the bytes of keys, which begin with the id of their schema, so that a new one would tear keys apart.

    Raises:
        RegistryError: a schema asked for by id that does not exist, or whose subject gives it another id.
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
    for each in registrations(source.topic, source.formats, source.schema, sink=False):
        registry.delete(each.subject)


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
    given = registry.register(wanted.subject, known.format, known.text, known.references)
    if given != wanted.schema_id:
        raise RegistryError(
            f"Schema id registered is {given} which is different from provided schema id {wanted.schema_id}."
        )
