"""Says what statements would do on a server that runs, of Kestrel or of ksqlDB.

What it runs is declared anew in a session here, whose planner then decides as that of the server does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
from msgspec.structs import replace

from kestrel_sql.admin.entities.schemas import schema_info
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.cli.remote import RemoteServer
from kestrel_sql.errors import EngineError, StatementError
from kestrel_sql.kafka.run.forecast import Action, Forecast
from kestrel_sql.kafka.run.resume import changes_between
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.sql.nodes.kafka_source import CreateKafkaSource
from kestrel_sql.sql.nodes.statements import (
    CreateAs,
    CreateSource,
    CreateType,
    DefineVariable,
    DropSource,
    DropType,
    InsertInto,
    SetProperty,
    UndefineVariable,
    UnsetProperty,
)
from kestrel_sql.sql.parse.parser import ParsedStatement, statements_of
from kestrel_sql.sql.script_files import statement_text
from kestrel_sql.types.sql_types import quote

_EARLIEST = {"auto.offset.reset": "earliest"}
_ASKED = "SHOW TYPES; SHOW STREAMS EXTENDED; SHOW TABLES EXTENDED; SHOW QUERIES EXTENDED;"
_Declared = CreateSource | CreateKafkaSource | CreateAs | InsertInto
_OF_SESSION = (SetProperty, UnsetProperty, DefineVariable, UndefineVariable, CreateType, DropType, DropSource)


class Step(msgspec.Struct, frozen=True):
    """What would happen because of a statement, and the texts and properties that make it happen."""

    forecast: Forecast
    texts: Sequence[str] = ()
    properties: Mapping[str, str] = {}


_Running = TypedDict("_Running", {"id": str, "overriddenProperties": Mapping[str, object]})  # noqa: UP013 - its names


@dataclass(slots=True)
class RemotePlan:
    """What a script would do on a server; `session` has its settings, and knows what runs there after `ask`."""

    server: RemoteServer
    session: Session
    rebuilds: bool
    _base: Config = field(init=False)
    _described: dict[str, Any] = field(init=False, default_factory=dict)
    _types: Mapping[str, Any] = field(init=False, default_factory=dict)
    _seen: set[str] = field(init=False, default_factory=set)
    """The sources and the queries of INSERT INTO that the script has."""

    def __post_init__(self) -> None:
        """Begin with the settings of the options."""
        self._base = self.session.config

    def steps(self, statements: Sequence[ParsedStatement]) -> Iterator[Step]:
        """Ask the server what runs, and say what each statement would do, at last what the script does not have.

        Raises:
            EngineError: the server does not answer, or runs what this release cannot plan.
        """
        self._declare()
        ran = dict(self.session.catalog.sources), dict(self.session.queries)
        for parsed in statements:
            if isinstance(parsed.statement, _Declared):
                yield self._step(parsed, parsed.statement)
            elif isinstance(parsed.statement, CreateType):
                yield self._type(parsed, parsed.statement)
            elif isinstance(parsed.statement, _OF_SESSION):
                yield from self._dropped(parsed)
                self.session.execute(parsed)
        yield from self._gone(*ran)

    def _type(self, parsed: ParsedStatement, statement: CreateType) -> Step:
        """A custom type; what runs has it written out."""
        known = self._types.get(statement.name)
        self.session.execute(parsed)
        found = Forecast(name=f"CREATE TYPE {statement.name}", action=Action.UNCHANGED)
        if known is None:
            return Step(replace(found, action=Action.NEW), (parsed.text,))
        if known != schema_info(statement.type):
            return Step(replace(found, action=Action.REFUSED, why="the server has another type of this name"))
        return Step(found)

    def _dropped(self, parsed: ParsedStatement) -> Iterator[Step]:
        """What a statement of the script drops."""
        statement = parsed.statement
        if isinstance(statement, DropSource) and statement.name in self.session.catalog.sources:
            name = f"CREATE {statement.kind.value} {statement.name}"
            yield Step(Forecast(name=name, action=Action.GONE, why="the script drops it"), (parsed.text,))
            self._seen.add(statement.name)

    def _declare(self) -> None:
        types, streams, tables, queries = self.server.ask("POST", "/ksql", {"ksql": _ASKED})
        self._types = types["types"]
        described = [*streams["sourceDescriptions"], *tables["sourceDescriptions"]]
        self._described = {each["name"]: each for each in described}
        running = [each for each in queries["queryDescriptions"] if each["queryType"] == "PERSISTENT"]
        texts = {each["statementText"] for each in running}
        waiting = [(each["statement"], None) for each in described if each["statement"] not in texts]
        waiting += [(each["statementText"], each) for each in sorted(running, key=lambda each: _number(each["id"]))]
        ended = {each["statement"] for each in described if not each["writeQueries"]}
        while waiting:
            later: list[tuple[str, Any]] = []
            for text, query in waiting:
                try:
                    self._run(text, query, ends=text in ended)
                except StatementError:
                    later.append((text, query))
            if len(later) == len(waiting):
                self._run(*later[0], ends=False)
            waiting = later

    def _run(self, text: str, query: _Running | None, *, ends: bool) -> None:
        """Declare what a statement made on the server, with the id that its query has there."""
        session = self.session
        session.config = self._base
        if query is not None:
            session.config = Config.of(query["overriddenProperties"])
            session.counter = _number(query["id"])
        before = set(session.queries)
        for piece in statements_of(text):
            for parsed in session.parse(statement_text(piece)):
                session.execute(parsed)
        if query is None and ends:
            for name in set(session.queries) - before:
                del session.queries[name]
        session.config = self._base

    def _step(self, parsed: ParsedStatement, statement: _Declared) -> Step:
        if isinstance(statement, InsertInto):
            forecast, source = self._insert(parsed, statement), None
        else:
            forecast, source = self._forecast(parsed, statement)
        properties = self.session.config.overrides
        match forecast.action:
            case Action.UNCHANGED | Action.REFUSED:
                return Step(forecast)
            case Action.REBUILT if source is not None:
                return Step(forecast, _rebuilding(source, parsed), {**properties, **_EARLIEST})
            case _:
                return Step(forecast, (parsed.text,), properties)

    def _forecast(
        self, parsed: ParsedStatement, statement: CreateSource | CreateKafkaSource | CreateAs
    ) -> tuple[Forecast, Source | None]:
        session = self.session
        source = session.catalog.sources.get(statement.name)
        query = None if source is None else session.queries.get(source.created_by or "")
        self._seen.add(statement.name)
        kind = "SOURCE" if isinstance(statement, CreateKafkaSource) else statement.kind.value
        found = Forecast(
            name=f"CREATE {kind} {statement.name}", query_id="" if query is None else query.id, action=Action.NEW
        )
        try:
            if source is None:
                done = session.execute(parsed)
                return replace(found, query_id=done.created_query or ""), None
            fresh = _without(session, source)
            fresh.execute(parsed)
            changes = _changed(source, query, fresh)
            if not changes:
                return replace(found, action=Action.UNCHANGED), source
            found = replace(found, changes=changes, action=Action.CHANGED)
            session.execute(parsed)
        except EngineError as error:
            found = replace(found, action=Action.REFUSED, why=error.message)
            if self.rebuilds and source is not None:
                return self._rebuilt(found, source, parsed), source
        return found, source

    def _rebuilt(self, found: Forecast, source: Source, parsed: ParsedStatement) -> Forecast:
        """Let a query begin anew, if nobody reads what it makes, and its records are there."""
        summaries = self._described[source.name]["queryOffsetSummaries"]
        topics = [topic for summary in summaries for topic in summary["topicSummaries"]]
        read = [(topic["kafkaTopic"], each) for topic in topics for each in topic["offsets"]]
        lost = [
            f"partition {each['partition']} of the topic {topic} begins at offset {each['logStartOffset']}"
            for topic, each in read
            if each["logStartOffset"] > 0
        ]
        if lost:
            return replace(found, why=f"{found.why}; records that it has read are gone: {'; '.join(lost)}")
        readers = self.session.catalog.derived(source.name)
        if readers:
            return replace(found, why=f"{found.why}; {', '.join(readers)} must be dropped before it begins anew")
        fresh = _without(self.session, source)
        try:
            fresh.execute(parsed)
        except EngineError as error:
            return replace(found, why=error.message)
        self.session = fresh
        start = {(topic, each["partition"]): each["logStartOffset"] for topic, each in read}
        return replace(found, action=Action.REBUILT, start=start)

    def _insert(self, parsed: ParsedStatement, statement: InsertInto) -> Forecast:
        """An INSERT INTO that runs has an equal plan; another one is new beside it."""
        fresh = replace(self.session, queries={})
        name = f"INSERT INTO {statement.target} FROM {statement.query.source.name}"
        try:
            fresh.execute(parsed)
        except EngineError as error:
            return Forecast(name=name, action=Action.REFUSED, why=error.message)
        (query,) = fresh.queries.values()
        for known in self.session.queries.values():
            if known.id not in self._seen and known.plan.sink == statement.target:
                if not changes_between(known.plan, known.config, query.plan, query.config):
                    self._seen.add(known.id)
                    return Forecast(name=name, query_id=known.id, action=Action.UNCHANGED)
        return Forecast(name=name, query_id=query.id, action=Action.NEW)

    def _gone(self, sources: Mapping[str, Source], queries: Mapping[str, PersistentQuery]) -> Iterator[Step]:
        """What runs and is not in the script, readers first."""
        for query in reversed([*queries.values()]):
            sink = sources.get(query.plan.sink or "")
            if sink is not None and sink.created_by != query.id and query.id not in self._seen:
                name = f"INSERT INTO {sink.name} FROM {', '.join(query.plan.sources)}"
                yield Step(Forecast(name=name, query_id=query.id, action=Action.GONE), (f"TERMINATE {query.id};",))
        for source in reversed([*sources.values()]):
            if source.name not in self._seen:
                name = f"CREATE {source.kind.value} {source.name}"
                gone = Forecast(name=name, query_id=source.created_by or "", action=Action.GONE)
                yield Step(gone, (f"DROP {source.kind.value} {quote(source.name)};",))


def _without(session: Session, source: Source) -> Session:
    """A copy of a session that does not know a source and its query."""
    queries = {name: each for name, each in session.queries.items() if name != source.created_by}
    return replace(session, catalog=session.catalog.without_source(source.name), queries=queries)


def _changed(source: Source, query: PersistentQuery | None, fresh: Session) -> list[str]:
    """What differs between a source with its query and those that another statement makes."""
    now = fresh.catalog.sources[source.name]
    made = fresh.queries.get(now.created_by or "")
    if query is not None and made is not None:
        return changes_between(query.plan, query.config, made.plan, made.config)
    was, now = (replace(each, statement_text="", created_by=None, derived_from=()) for each in (source, now))
    return [] if was == now else [f"{source.name}\n  - {was.schema}, {was.topic}\n  + {now.schema}, {now.topic}"]


def _rebuilding(source: Source, parsed: ParsedStatement) -> tuple[str, str]:
    return f"DROP {source.kind.value} {quote(source.name)};", parsed.text


def _number(query_id: str) -> int:
    number = query_id.rsplit("_", 1)[-1]
    return int(number) if number.isdecimal() else 0
