"""A copy of a session to try statements on: nothing that it does reaches the engine or the schema registry."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.formats.registry.memory import (
    MemoryRegistry,
    MissingRegistry,
    RegisteredSchema,
    RegistryView,
    SchemaFormat,
    SchemaReference,
    SchemaRegistry,
)
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session


class TrialRegistry:
    """Reads through to a registry, and registers in memory only."""

    def __init__(self, behind: SchemaRegistry) -> None:
        self._behind = behind
        self._own = MemoryRegistry()
        self._deleted: set[str] = set()

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Find the newest schema of `subject`, or None."""
        own = self._own.latest(subject)
        return own if own is not None or subject in self._deleted else self._behind.latest(subject)

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Find the schema with that id, or None."""
        return self._behind.by_id(schema_id) or self._own.by_id(schema_id)

    def register(
        self,
        subject: str,
        format: SchemaFormat,
        text: str,
        references: tuple[SchemaReference, ...] = (),
        *,
        schema_id: int | None = None,
    ) -> int:
        """Add a schema to `subject`, and give the id that it has in the registry behind, or one that is free."""
        known = self._behind.snapshot().find(format, text)
        free = max(self._behind.snapshot().by_id, default=0) + len(self._own.snapshot().by_id) + 1
        chosen = schema_id or (free if known is None else known.id)
        own = self._own.snapshot().find(format, text)
        return self._own.register(subject, format, text, references, schema_id=chosen if own is None else own.id)

    def freeze(self, subject: str) -> None:
        """Do nothing."""

    def retract(self, subject: str, schema_id: int) -> None:
        """Take back what was registered here."""
        self._own.retract(subject, schema_id)

    def delete(self, subject: str) -> None:
        """Hide `subject`."""
        self._own.delete(subject)
        self._deleted.add(subject)

    def subjects(self) -> tuple[str, ...]:
        """Give all subjects."""
        behind = (subject for subject in self._behind.subjects() if subject not in self._deleted)
        return tuple(dict.fromkeys((*behind, *self._own.subjects())))

    def snapshot(self) -> RegistryView:
        """Give a view of both."""
        behind, own = self._behind.snapshot(), self._own.snapshot()
        return RegistryView(
            by_id={**own.by_id, **behind.by_id},
            latest={**{s: i for s, i in behind.latest.items() if s not in self._deleted}, **own.latest},
            versions={**behind.versions, **own.versions},
        )


def trial_session(session: Session, config: Config, variables: dict[str, str]) -> Session:
    """A copy of `session` under the settings of a request."""
    registry = session.registry
    return replace(
        session,
        config=config,
        variables=dict(variables),
        queries=dict(session.queries),
        registry=registry if isinstance(registry, MissingRegistry) else TrialRegistry(registry),
    )
