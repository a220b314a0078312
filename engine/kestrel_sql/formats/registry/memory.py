"""Schemas of the schema registry: what one is, a registry in memory, and the snapshot that workers carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Protocol

from kestrel_sql.errors import RegistryError


class SchemaFormat(Enum):
    """The schema languages of the registry; the value is its `schemaType`."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one imports under `name`."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry holds it."""

    id: int
    format: SchemaFormat
    text: str
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistryView:
    """A picklable snapshot: schemas by id, the latest of each subject, and referenced texts by import name."""

    by_id: Mapping[int, RegisteredSchema] = field(default_factory=dict)
    latest: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def find(self, format: SchemaFormat, text: str) -> RegisteredSchema | None:
        """The schema without imports that equals `text`, or None."""
        wanted = canonical(format, text)
        known = (each for each in self.by_id.values() if each.format is format and not each.references)
        return next((each for each in known if canonical(format, each.text) == wanted), None)

    def latest_of(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of `subject`, or None."""
        schema_id = self.latest.get(subject)
        return None if schema_id is None else self.by_id[schema_id]

    def imports_of(self, schema: RegisteredSchema) -> dict[str, str]:
        """The texts of everything `schema` refers to, directly or not, by import name; what is missing is left out."""
        found: dict[str, str] = {}
        pending = list(schema.references)
        while pending:
            reference = pending.pop()
            schema_id = self.versions.get((reference.subject, reference.version))
            if schema_id is None or reference.name in found:
                continue
            target = self.by_id[schema_id]
            found[reference.name] = target.text
            pending.extend(target.references)
        return found


NO_SCHEMAS = RegistryView()


@lru_cache(maxsize=4096)
def canonical(format: SchemaFormat, text: str) -> str:
    """The text of a schema in the form in which equal schemas are equal: members of objects sorted, blanks collapsed."""
    if format is SchemaFormat.PROTOBUF:
        return " ".join(text.split())
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        # The name of an Avro primitive may stand without its quotes.
        return json.dumps(text.strip())


class SchemaRegistry(Protocol):
    """A schema registry, in memory or by URL."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Find the newest schema of `subject`, or None."""
        ...

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Find the schema with that id, or None."""
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
        """Add a schema to `subject` and give its id, which must be `schema_id` if that is given.

        Raises:
            RegistryError: the schema is refused or has another id.
        """
        ...

    def freeze(self, subject: str) -> None:
        """Keep others from giving `subject` another schema, where the registry can; where it cannot, a warning is logged."""
        ...

    def delete(self, subject: str) -> None:
        """Delete `subject` with all its versions for good; one that is not there is no error.

        Raises:
            RegistryError: the registry refuses.
        """
        ...

    def subjects(self) -> tuple[str, ...]:
        """Give all subjects."""
        ...

    def snapshot(self) -> RegistryView:
        """Give a picklable view for workers."""
        ...


class MemoryRegistry:
    """A schema registry in memory: ids count from 1, equal schemas share an id, a subject numbers its versions from 1.

    confluent-kafka's `mock://` client is not used: it neither takes explicit ids nor shares ids across subjects.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, RegisteredSchema] = {}
        self._ids: dict[tuple[SchemaFormat, str, tuple[SchemaReference, ...]], int] = {}
        self._subjects: dict[str, list[int]] = {}

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of `subject`, or None if there is none."""
        versions = self._subjects.get(subject)
        return self._by_id[versions[-1]] if versions else None

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """The schema with that id, or None."""
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
        """Add a schema to `subject`, as its newest version unless it has it already, and give its id.

        Raises:
            RegistryError: `schema_id` belongs to another schema.
        """
        content = (format, canonical(format, text), references)
        known = self._known(subject, content)
        chosen = known or self._next_id() if schema_id is None else schema_id
        if chosen in self._by_id and self._ids_of(chosen) != content:
            raise RegistryError(f"Schema id {chosen} is taken by another schema")
        self._by_id.setdefault(chosen, RegisteredSchema(chosen, format, text, references))
        self._ids.setdefault(content, chosen)
        versions = self._subjects.setdefault(subject, [])
        if chosen not in versions:
            versions.append(chosen)
        return chosen

    def delete(self, subject: str) -> None:
        """Forget the versions of `subject`; ids stay resolvable, as in the real registry."""
        self._subjects.pop(subject, None)

    def freeze(self, subject: str) -> None:
        """Do nothing: there are no others."""

    def subjects(self) -> tuple[str, ...]:
        """All subjects, in order of first registration."""
        return tuple(self._subjects)

    def snapshot(self) -> RegistryView:
        """A picklable copy for workers."""
        return RegistryView(
            by_id=dict(self._by_id),
            latest={subject: ids[-1] for subject, ids in self._subjects.items()},
            versions={(subject, n): i for subject, ids in self._subjects.items() for n, i in enumerate(ids, 1)},
        )

    def _known(self, subject: str, content: tuple[SchemaFormat, str, tuple[SchemaReference, ...]]) -> int | None:
        """The id under which `subject`, or else any other, has that schema."""
        own = (schema_id for schema_id in self._subjects.get(subject, ()) if self._ids_of(schema_id) == content)
        return next(own, None) or self._ids.get(content)

    def _next_id(self) -> int:
        return max(self._by_id, default=0) + 1

    def _ids_of(self, schema_id: int) -> tuple[SchemaFormat, str, tuple[SchemaReference, ...]]:
        schema = self._by_id[schema_id]
        return schema.format, canonical(schema.format, schema.text), schema.references
