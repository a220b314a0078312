"""Tries the statements of scripts one by one, as `kestrel run` would execute them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kestrel_sql.admin.connect import SKIP, URL
from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import EngineError, StatementError, attach_span
from kestrel_sql.importer.entries import Outcome, StatementReport, refused
from kestrel_sql.importer.stubs import MissingFunction, with_stubs
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.admin import (
    AssertSchema,
    AssertTopic,
    ControlQuery,
    CreateConnector,
    Describe,
    DropConnector,
    Explain,
    ListObjects,
    PrintTopic,
)
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import ParsedStatement, place_of, statements_of
from kestrel_sql.sql.parse.tokens import StatementTokens
from kestrel_sql.sql.script_files import run_script, statement_text, words_of

_ANSWERED = (
    AssertSchema,
    AssertTopic,
    ControlQuery,
    Describe,
    DropConnector,
    Explain,
    ListObjects,
    PrintTopic,
    Query,
)
_TOPICS = ("topics", "topic", "kafka.topic", "topic.prefix", "topics.regex")
"""The properties of connectors that name topics; a prefix names those that begin with it."""


class ScriptTrial(msgspec.Struct):
    """The scripts of one report, which share a session; `missing` has the functions that nobody declares, by name."""

    session: Session
    missing: dict[str, MissingFunction] = {}
    _connectors: dict[tuple[str, str], CreateConnector] = {}

    def entries(self, text: str, file: Path, name: str, running: tuple[Path, ...] = ()) -> Iterator[StatementReport]:
        """Try the statements of a script, and of those that it runs; messages call it by `name`."""
        for piece in statements_of(text):
            words, origin = words_of(piece), f"{name}:{place_of(piece).line}"
            if words in (["EXIT"], ["QUIT"]):
                return
            if words in (["HELP"], ["VERSION"]) or words[:2] == ["SET", "CLI"]:
                yield StatementReport(origin, piece.text, Outcome.NOTHING, reason="it is a command of the prompt")
            elif words == ["RUN", "SCRIPT", "STRING_VALUE"]:
                around = (*running, file.resolve())
                try:
                    other, script = run_script(piece, file.resolve().parent, around)
                except StatementError as error:
                    yield refused(origin, piece.text, error)
                    continue
                yield from self.entries(script, other, other.name, around)
            else:
                yield from self._statements(piece, name)

    def with_topics(self, entry: StatementReport) -> StatementReport:
        """Say in the report of a connector which topics it feeds; the streams over them come after it."""
        connector = self._connectors.get((entry.origin, entry.statement))
        return entry if connector is None else replace(entry, reason=f"{entry.reason}; it {self._fed(connector)}")

    def _statements(self, piece: StatementTokens, name: str) -> Iterator[StatementReport]:
        try:
            for parsed in self.session.parse(statement_text(piece)):
                yield self._entry(parsed, name)
        except EngineError as error:
            yield _refused_at(name, piece.text, error)

    def _entry(self, parsed: ParsedStatement, name: str) -> StatementReport:
        origin = f"{name}:{parsed.span.line}"
        if isinstance(parsed.statement, CreateConnector):
            self._connectors[origin, parsed.text] = parsed.statement
            return self._connector(parsed, origin)
        if isinstance(parsed.statement, _ANSWERED):
            return StatementReport(origin, parsed.text, Outcome.NOTHING, reason="it answers a user and starts nothing")
        try:
            return StatementReport(origin, parsed.text, Outcome.RUNS, query=self._plan(parsed))
        except EngineError as error:
            first = error
        stubbed = with_stubs(self.session.functions, parsed.statement, self.missing)
        if stubbed is not None:
            # So that what depends on the statement is tried for its own sake.
            self.session.functions = stubbed
            with suppress(EngineError):
                self._plan(parsed)
        return _refused_at(name, parsed.text, first)

    def _plan(self, parsed: ParsedStatement) -> str | None:
        """Execute a statement in the session, and return the id of its query."""
        session = self.session
        with attach_span(parsed.span):
            plan = session.execute(parsed).plan
            query = None if plan is None else plan.query_plan
            if query is not None:
                build_graph([QueryRun(plan=query, settings=session.config, serde=session.serde())], session.functions)
        return None if query is None else query.query_id

    def _connector(self, parsed: ParsedStatement, origin: str) -> StatementReport:
        config = self.session.config
        if config.get(SKIP) == "true":
            return StatementReport(origin, parsed.text, Outcome.NOTHING, reason="passed over")
        if config.get(URL):
            return StatementReport(origin, parsed.text, Outcome.RUNS, reason=f"Kafka Connect at {config[URL]} runs it")
        error = StatementError(
            "a connector needs Kafka Connect",
            hint=f"--set {URL}=http://HOST:8083 names one, --skip-connectors passes over it",
        )
        return refused(origin, parsed.text, error)

    def _fed(self, connector: CreateConnector) -> str:
        """Say which topics a connector names, and which streams and tables are over them."""
        verb = "feeds" if connector.kind == "SOURCE" else "reads"
        settings = {name.lower(): str(value) for name, value in connector.properties}
        named = [(key, part.strip()) for key in _TOPICS for part in settings.get(key, "").split(",") if part.strip()]
        if not named:
            return f"{verb} topics that its properties do not name"
        topics = ", ".join(f"{text}…" if key == "topic.prefix" else text for key, text in named)
        sources = [
            source.name
            for source in self.session.catalog.sources.values()
            if any(
                source.topic == text or (key == "topic.prefix" and source.topic.startswith(text)) for key, text in named
            )
        ]
        return f"{verb} {topics} ({', '.join(sources) or 'no stream or table is over that'})"


def _refused_at(name: str, text: str, error: EngineError) -> StatementReport:
    at = error.span
    return refused(f"{name}:{at.line}:{at.column}" if at else name, text, error)
