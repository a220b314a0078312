"""Says what a start would do with each query of an application and its checkpoint, and changes nothing.

What decides at a start decides here: only topics that a start would create are imagined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from kestrel_sql.errors import EngineError, StatementError
from kestrel_sql.kafka.client.offsets import BrokerOffsets, Topic
from kestrel_sql.kafka.client.positions import Offsets, Position
from kestrel_sql.kafka.run.application import Application
from kestrel_sql.kafka.run.declared_topics import Topics
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest, StoredQuery
from kestrel_sql.kafka.run.opening import checkpoint_errors, open_checkpoint
from kestrel_sql.kafka.run.prepare_query import Preparation
from kestrel_sql.kafka.run.processing_log import LogWriter
from kestrel_sql.kafka.run.resume import NamedQuery, changes_between, gone, plan_of
from kestrel_sql.kafka.run.run import ProductionRun, StoreUri
from kestrel_sql.kafka.run.script import Script
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.properties.topic_shape import TopicShape
from kestrel_sql.planner.properties.with_clause import TopicProperties


class Action(StrEnum):
    """What would happen to a query."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    REBUILT = "rebuilt"
    NEW = "new"
    REFUSED = "refused"
    GONE = "gone"


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to a query or source.

    Attributes:
        name: the statement that makes it, in short.
        query_id: the id of its query, empty without one.
        action: what would happen.
        why: why it would be refused or begins anew.
        changes: what differs from what runs.
        start: from which offsets it would read that begins with empty state.
    """

    name: str
    action: Action
    query_id: str = ""
    why: str = ""
    changes: Sequence[str] = ()
    start: Offsets = {}


class _ReadOnly(CheckpointFolder):
    """A checkpoint that somebody else may use."""

    def save(self, manifest: Manifest) -> None:
        """Do nothing."""


class _ImaginedTopics(Topics, frozen=True):
    """Imagines the topics that a start would create, and deletes none."""

    imagined: dict[str, TopicShape] = msgspec.field(default_factory=dict)

    def shapes(self, names: Iterable[str]) -> Mapping[str, TopicShape]:
        wanted = list(names)
        found = Topics.shapes(self, wanted)
        return {**{name: self.imagined[name] for name in wanted if name in self.imagined}, **found}

    def create(self, name: str, wanted: TopicProperties, policy: str | None) -> TopicShape | None:
        self.imagined[name] = TopicShape(
            partitions=wanted.partitions or 1, replicas=wanted.replicas or 1, retention_ms=wanted.retention_ms
        )
        return None

    def delete(self, topic: str) -> None:
        """Do nothing."""


class _ImaginedOffsets(BrokerOffsets):
    """Knows also topics that a start would create."""

    imagined: Mapping[str, TopicShape]

    def topics(self, names: Iterable[str], timeout: float | None = None) -> dict[str, Topic]:
        wanted = list(names)
        made = {name: Topic(name, "", self.imagined[name].partitions) for name in wanted if name in self.imagined}
        return {**made, **super().topics(wanted, timeout)}

    def first(self, positions: Iterable[Position]) -> dict[Position, int]:
        return self._with_imagined(positions, super().first)

    def ends(self, positions: Iterable[Position], timeout: float | None = None) -> dict[Position, int]:
        return self._with_imagined(positions, lambda asked: super(_ImaginedOffsets, self).ends(asked, timeout))

    def _with_imagined(
        self, positions: Iterable[Position], ask: Callable[[list[Position]], dict[Position, int]]
    ) -> dict[Position, int]:
        wanted = list(positions)
        return {
            **{each: 0 for each in wanted if each[0] in self.imagined},
            **ask([each for each in wanted if each[0] not in self.imagined]),
        }


class Forecasting(Application):
    """An application that is only looked at; the registry of its session takes nothing."""

    def forecast(self, *texts: str) -> list[Forecast]:
        """Say what `run` would do with the queries of the texts of a script.

        Raises:
            EngineError: the broker does not answer, or a statement is refused.
        """
        settings, parsed = self.settings, [*self._parsed(texts)]
        statements = [statement for _, statement in parsed]
        with checkpoint_errors(settings.checkpoint):
            folder = _ReadOnly(open_checkpoint(settings.checkpoint, self._spark.session).folder)
            try:
                manifest = folder.load()
                if self._connected() is None:
                    return []
                offsets = _ImaginedOffsets(settings.config)
                topics = _ImaginedTopics(settings.config, manifest.queries)
                offsets.imagined = topics.imagined
                script = Script(
                    session=self.session,
                    folder=folder,
                    manifest=manifest,
                    define=lambda parsed: self._define(parsed, topics),
                    ask=lambda _: None,
                    follow=lambda _: (),
                    insert=lambda _: None,
                )
                self._execute(parsed, script)
                with closing(LogWriter(settings.config, None, self.say)) as log:
                    run = self._queries(statements, log)
                preparation, queries = run.preparation(folder, manifest, offsets)
                found = [forecast(run, preparation, named, manifest) for named in queries]
                left = [
                    Forecast(name=each.name, query_id=each.id, action=Action.GONE) for each in gone(manifest, queries)
                ]
                return found + left
            finally:
                if isinstance(settings.checkpoint, StoreUri):
                    self._spark.close(self.close_spark)


def forecast(run: ProductionRun, preparation: Preparation, named: NamedQuery, manifest: Manifest) -> Forecast:
    """Say what a start does with a query; `preparation` is that of `run`."""
    stored = manifest.queries.get(named.name)
    refused = Forecast(name=named.name, query_id=named.query.id, action=Action.REFUSED)
    try:
        if stored is None:
            start = preparation.new(named).stored.start
            return replace(refused, action=Action.NEW, start=start)
        refused = replace(refused, query_id=stored.id, changes=changes_of(named, stored))
        try:
            preparation.known(named, stored).check(preparation.folder, None)
        except StatementError as error:
            if not run.settings.rebuilds:
                raise
            start = preparation.anew(named, stored, manifest.runs + 1).stored.start
            return replace(refused, action=Action.REBUILT, why=_why(error), start=start)
        return replace(refused, action=Action.CHANGED if refused.changes else Action.UNCHANGED)
    except EngineError as error:
        return replace(refused, why=_why(error))


def _why(error: EngineError) -> str:
    """The message of an error, without the differences that a forecast has apart."""
    return error.message.partition("; changed:")[0]


def changes_of(named: NamedQuery, stored: StoredQuery) -> list[str]:
    """Return what differs between a query and that in the checkpoint."""
    return changes_between(plan_of(stored), Config.of(stored.settings), named.query.plan, named.query.config)
