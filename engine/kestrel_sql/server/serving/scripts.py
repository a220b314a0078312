"""The scripts that a server carries out when it starts, each statement once as long as its checkpoint lives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kestrel_sql.admin.answer import Entity
from kestrel_sql.errors import StatementError
from kestrel_sql.server.errors import ApiError
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.sql.nodes.statements import SESSION_STATEMENTS, Query
from kestrel_sql.sql.parse.parser import ParsedStatement

CarryOut = Callable[[ParsedStatement, int, Mapping[str, object], Mapping[str, str]], Sequence[Entity]]
"""Carries out the n-th of several equal statements under properties and variables, unless an earlier start did."""


class ServedScript(msgspec.Struct, frozen=True):
    """The statements of scripts in order; SET and DEFINE hold for those that follow."""

    carry_out: CarryOut
    session: Session
    _seen: Counter[str] = msgspec.field(default_factory=Counter)

    def run(self, text: str) -> Sequence[Entity]:
        """Carry out a text, and return what the statements answer.

        Raises:
            EngineError: a statement is refused; those before it have run.
        """
        entities: list[Entity] = []
        for parsed in self.session.parse(text):
            if isinstance(parsed.statement, SESSION_STATEMENTS):
                self.session.execute(parsed)
                continue
            if isinstance(parsed.statement, Query | PrintTopic):
                raise StatementError(
                    "a script cannot contain a SELECT or PRINT, because its answer goes nowhere",
                    span=parsed.span,
                    hint="use CREATE STREAM … AS SELECT to write to a topic",
                )
            self._seen[parsed.text] += 1
            settings, variables = self.session.config.overrides, self.session.variables
            try:
                entities += self.carry_out(parsed, self._seen[parsed.text], settings, variables)
            except ApiError as error:
                raise StatementError(error.message) from error
        return entities
