"""The statements of an application carried out against a broker: topics made, records inserted, queries planned; none is started here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kestrel_sql.admin.answer import Answer
from kestrel_sql.errors import StatementError, attach_span
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.admin import ControlQuery, PrintTopic
from kestrel_sql.sql.nodes.statements import DropSource, InsertValues, Query
from kestrel_sql.sql.parse.parser import ParsedStatement

Effect = Callable[[ParsedStatement], Answer | None]
"""Carries out a statement; gives what it answers, if it asks."""


@dataclass(slots=True, kw_only=True)
class Script:
    """Statements in order; `define` plans, `ask` answers what asks, `follow` what answers bit by bit, `insert` writes records.

    A start from a checkpoint executes the same statements again, so that the session is the same; what they did to the broker
    itself (records inserted, topics deleted) is done once and noted in the manifest.
    """

    session: Session
    folder: CheckpointFolder
    manifest: Manifest
    define: Effect
    ask: Effect
    follow: Callable[[ParsedStatement], Iterable[Answer]]
    insert: Effect
    _seen: dict[str, int] = field(default_factory=dict)

    def execute(self, parsed: ParsedStatement) -> Iterable[Answer]:
        """Carry out a statement; what it answers may come bit by bit.

        Raises:
            EngineError: it is refused.
        """
        with attach_span(parsed.span):
            return self._execute(parsed)

    def _execute(self, parsed: ParsedStatement) -> Iterable[Answer]:
        match parsed.statement:
            case Query():
                raise StatementError(
                    "a SELECT has nobody to answer to here",
                    span=parsed.span,
                    hint="CREATE STREAM … AS SELECT writes to a topic",
                )
            case ControlQuery():
                raise StatementError(
                    "queries of a script run as long as the script does",
                    span=parsed.span,
                    hint="take the statement out of the script",
                )
            case PrintTopic():
                return self.follow(parsed)
            case InsertValues():
                return _told(self._once(parsed, self.insert))
            case DropSource(delete_topic=True):
                return _told(self._once(parsed, self.define, self.session.execute))
            case _:
                answer = self.ask(parsed)
                return _told(self.define(parsed) if answer is None else answer)

    def _once(
        self, parsed: ParsedStatement, effect: Effect, otherwise: Callable[[ParsedStatement], object] = lambda _: None
    ) -> Answer | None:
        """Have an effect unless an earlier start had it; the n-th of equal statements is the n-th of the manifest."""
        self._seen[parsed.text] = self._seen.get(parsed.text, 0) + 1
        if self.manifest.done.count(parsed.text) >= self._seen[parsed.text]:
            otherwise(parsed)
            return None
        answer = effect(parsed)
        self.manifest = self.manifest.with_done(parsed.text)
        self.folder.save(self.manifest)
        return answer


def _told(answer: Answer | None) -> tuple[Answer, ...]:
    return () if answer is None else (answer,)
