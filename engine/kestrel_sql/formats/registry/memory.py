"""Schemas of a schema registry, a registry in memory, and the snapshot that workers use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Protocol

import msgspec

from kestrel_sql.errors import RegistryError, RegistryMissingError


class SchemaFormat(Enum):
    """The schema languages of the registry; the value is its `schemaType`."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class SchemaReference(msgspec.Struct, frozen=True):
    """A schema that another schema imports under `name`."""

    name: str
    subject: str
    version: int


class RegisteredSchema(msgspec.Struct, frozen=True):
    """A schema as the registry holds it."""

    id: int
    format: SchemaFormat
    text: str
    references: tuple[SchemaReference, ...] = ()


class RegistryView(msgspec.Struct, frozen=True):
    """A picklable snapshot: schemas by id, the latest schema id by subject, and schema ids by subject and version."""

    by_id: Mapping[int, RegisteredSchema] = {}
    latest: Mapping[str, int] = {}
    versions: Mapping[tuple[str, int], int] = {}

    def find(self, format: SchemaFormat, text: str) -> RegisteredSchema | None:
        """Return the schema without imports that equals `text`, or None."""
        wanted = canonical(format, text)
        known = (each for each in self.by_id.values() if each.format is format and not each.references)
        return next((each for each in known if canonical(format, each.text) == wanted), None)

    def latest_of(self, subject: str) -> RegisteredSchema | None:
        """Return the latest schema of `subject`, or None."""
        schema_id = self.latest.get(subject)
        return None if schema_id is None else self.by_id[schema_id]

    def imports_of(self, schema: RegisteredSchema) -> dict[str, str]:
        """Return the texts of all direct and indirect references of `schema` by import name, except missing ones."""
        texts: dict[str, str] = {}
        pending = list(schema.references)
        while pending:
            reference = pending.pop()
            schema_id = self.versions.get((reference.subject, reference.version))
            if schema_id is None or reference.name in texts:
                continue
            target = self.by_id[schema_id]
            texts[reference.name] = target.text
            pending.extend(target.references)
        return texts


NO_SCHEMAS = RegistryView()


@lru_cache(maxsize=4096)
def canonical(format: SchemaFormat, text: str) -> str:
    """Return the text of a schema in canonical form: object members sorted, blanks collapsed."""
    if format is SchemaFormat.PROTOBUF:
        return " ".join(text.split())
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        # The name of an Avro primitive may lack its quotes.
        return json.dumps(text.strip())


class SchemaRegistry(Protocol):
    """A schema registry, in memory or remote."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the latest schema of `subject`, or None."""
        ...

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema with that id, or None."""
        ...

    def register(
        self,
        subject: str,
        format: SchemaFormat,
        text: str,
        references: tuple[SchemaReference, ...] = (),
        *,
        schema_id: int | None = None,
    ) -> int:
        """Add a schema to `subject` and return its id, which must be `schema_id` if that is not None.

        Raises:
            RegistryError: the registry rejects the schema, or its id differs.
        """
        ...

    def freeze(self, subject: str) -> None:
        """Keep others from adding schemas to `subject`; if the registry cannot, log a warning."""
        ...

    def retract(self, subject: str, schema_id: int) -> None:
        """Delete the newest version of `subject` permanently if it is the schema with that id.

        Raises:
            RegistryError: the registry rejects the deletion.
        """
        ...

    def delete(self, subject: str) -> None:
        """Delete `subject` permanently with all its versions, if it exists.

        Raises:
            RegistryError: the registry rejects the deletion.
        """
        ...

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects."""
        ...

    def snapshot(self) -> RegistryView:
        """Return a picklable view for workers."""
        ...


class MemoryRegistry:
    """A schema registry in memory: ids count from 1, equal schemas share an id, versions of a subject count from 1.

    confluent-kafka's `mock://` client does not fit: it accepts no explicit ids and shares no ids across subjects.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, RegisteredSchema] = {}
        self._ids: dict[tuple[SchemaFormat, str, tuple[SchemaReference, ...]], int] = {}
        self._subjects: dict[str, list[int]] = {}

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the latest schema of `subject`, or None."""
        versions = self._subjects.get(subject)
        return self._by_id[versions[-1]] if versions else None

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema with that id, or None."""
        return self._by_id.get(schema_id)

    def register(
        self,
        subject: str,
        format: SchemaFormat,
        text: str,
        references: tuple[SchemaReference, ...] = (),
        *,
        schema_id: int | None = None,
    ) -> int:
        """Add a schema to `subject` as its latest version, unless it is there already, and return its id.

        Raises:
            RegistryError: `schema_id` belongs to another schema.
        """
        content = (format, canonical(format, text), references)
        known = self._known(subject, content)
        new_id = known or self._next_id() if schema_id is None else schema_id
        if new_id in self._by_id and self._ids_of(new_id) != content:
            raise RegistryError(f"Schema id {new_id} is taken by another schema")
        self._by_id.setdefault(new_id, RegisteredSchema(new_id, format, text, references))
        self._ids.setdefault(content, new_id)
        versions = self._subjects.setdefault(subject, [])
        if new_id not in versions:
            versions.append(new_id)
        return new_id

    def retract(self, subject: str, schema_id: int) -> None:
        """Remove the newest version of `subject` if it is the schema with that id, which stays available by it."""
        versions = self._subjects.get(subject, [])
        if versions[-1:] == [schema_id]:
            versions.pop()
        if not versions:
            self._subjects.pop(subject, None)

    def delete(self, subject: str) -> None:
        """Remove `subject`; its schemas stay available by id, as in a real registry."""
        self._subjects.pop(subject, None)

    def freeze(self, subject: str) -> None:
        """Do nothing: a registry in memory has no other users."""

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects in order of first registration."""
        return tuple(self._subjects)

    def snapshot(self) -> RegistryView:
        """Return a picklable copy for workers."""
        return RegistryView(
            by_id=dict(self._by_id),
            latest={subject: ids[-1] for subject, ids in self._subjects.items()},
            versions={(subject, n): i for subject, ids in self._subjects.items() for n, i in enumerate(ids, 1)},
        )

    def _known(self, subject: str, content: tuple[SchemaFormat, str, tuple[SchemaReference, ...]]) -> int | None:
        """Return the id of the schema in `subject`, else in any subject, or None."""
        own = (schema_id for schema_id in self._subjects.get(subject, ()) if self._ids_of(schema_id) == content)
        return next(own, None) or self._ids.get(content)

    def _next_id(self) -> int:
        return max(self._by_id, default=0) + 1

    def _ids_of(self, schema_id: int) -> tuple[SchemaFormat, str, tuple[SchemaReference, ...]]:
        schema = self._by_id[schema_id]
        return schema.format, canonical(schema.format, schema.text), schema.references


class MissingRegistry(MemoryRegistry):
    """Stands for a schema registry where none is configured: what needs a schema is refused."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Raise RegistryMissingError."""
        raise _missing(f"the schema of {subject}")

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Raise RegistryMissingError."""
        raise _missing(f"the schema with id {schema_id}")

    def register(self, subject: str, format: SchemaFormat, *_: object, **__: object) -> int:
        """Raise RegistryMissingError."""
        raise _missing(f"the {format.value} schema of {subject}")


def _missing(wanted: str) -> RegistryMissingError:
    return RegistryMissingError(
        f"{wanted} needs a schema registry, and none is configured",
        hint="--schema-registry URL names one; for topics in memory, --schema-registry memory makes one",
    )
