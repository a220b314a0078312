"""Executes the statements of an application against a broker.

Creates topics, inserts records, plans queries, but starts none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kestrel_sql.admin.answer import Answer
from kestrel_sql.errors import StatementError, attach_span
from kestrel_sql.kafka.run.manifest import CheckpointFolder, Manifest
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.admin import ControlQuery, CreateConnector, DropConnector, PrintTopic
from kestrel_sql.sql.nodes.statements import DropSource, InsertValues, Query
from kestrel_sql.sql.parse.parser import ParsedStatement

Effect = Callable[[ParsedStatement], Answer | None]
"""Executes a statement; returns its answer, if it has one."""


class Script(msgspec.Struct, kw_only=True):
    """Executes statements in order.

    A start from a checkpoint executes the same statements again, so that the session is the same. Their effects on the
    broker (inserted records, deleted topics) happen once and are recorded in the manifest.

    Attributes:
        session: the session.
        folder: the checkpoint folder, whose lock is held.
        manifest: its manifest, which is updated.
        define: executes a statement that changes the session.
        ask: answers a statement that only reads, such as SHOW; returns None for others.
        follow: answers PRINT bit by bit.
        insert: executes INSERT VALUES.
    """

    session: Session
    folder: CheckpointFolder
    manifest: Manifest
    define: Effect
    ask: Effect
    follow: Callable[[ParsedStatement], Iterable[Answer]]
    insert: Effect
    _seen: dict[str, int] = {}

    def execute(self, parsed: ParsedStatement) -> Iterable[Answer]:
        """Execute a statement; answers may arrive one after the other.

        Raises:
            EngineError: the statement is refused.
        """
        with attach_span(parsed.span):
            return self._execute(parsed)

    def _execute(self, parsed: ParsedStatement) -> Iterable[Answer]:
        match parsed.statement:
            case Query():
                raise StatementError(
                    "a script cannot contain a SELECT, because its answer goes nowhere",
                    span=parsed.span,
                    hint="use CREATE STREAM … AS SELECT to write to a topic",
                )
            case ControlQuery():
                raise StatementError(
                    "a script cannot pause, resume or terminate its queries: they run as long as the script",
                    span=parsed.span,
                    hint="remove this statement",
                )
            case PrintTopic():
                return self.follow(parsed)
            case CreateConnector() | DropConnector():
                return _answers(self._once(parsed, self.ask))
            case InsertValues():
                return _answers(self._once(parsed, self.insert))
            case DropSource(delete_topic=True):
                return _answers(self._once(parsed, self.define, self.session.execute))
            case _:
                answer = self.ask(parsed)
                return _answers(self.define(parsed) if answer is None else answer)

    def _once(
        self, parsed: ParsedStatement, effect: Effect, otherwise: Callable[[ParsedStatement], object] = lambda _: None
    ) -> Answer | None:
        """Execute a statement unless an earlier start did.

        The n-th of several equal statements is the n-th in the manifest.
        """
        written = parsed.written or parsed.text
        self._seen[written] = self._seen.get(written, 0) + 1
        if self.manifest.done.count(written) >= self._seen[written]:
            otherwise(parsed)
            return None
        answer = effect(parsed)
        self.manifest = self.manifest.with_done(written)
        self.folder.save(self.manifest)
        return answer


def _answers(answer: Answer | None) -> tuple[Answer, ...]:
    return () if answer is None else (answer,)
