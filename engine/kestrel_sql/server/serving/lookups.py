"""Pull queries by key that differ in their constant only: parsed and planned once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from kestrel_sql.admin.answer import Answer
from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.planner.config import Config
from kestrel_sql.server.service import Request
from kestrel_sql.sql.nodes.expressions import Comparison, IntegerLiteral, StringLiteral
from kestrel_sql.sql.nodes.statements import Query
from kestrel_sql.sql.parse.parser import ParsedStatement

LookUp = Callable[[object], Answer | None]
"""Answers a pull query for a constant; None if its table is not loaded, or is no longer the one it was planned over."""

_KEPT = 1_000
_LONGEST = 2_000
_MOST_PROPERTIES = 20

# The text before the constant has no quote, variable, semicolon or comment, so texts that begin alike parse alike.
_TEXT = re.compile(r"([^'\"`$;]*=\s*)(?:'([^'$]*)'|([0-9]{1,18}))\s*;\s*")

_Shape = tuple[str, str]
"""The text before the constant, and the type of the constant."""


class Lookups(msgspec.Struct):
    """Remembers statements `SELECT … WHERE column = constant` and how they are answered; any thread may ask."""

    _statements: dict[_Shape, ParsedStatement] = {}
    _planned: dict[tuple[_Shape, str], tuple[Catalog, Config, LookUp]] = {}

    def parsed(self, request: Request) -> ParsedStatement | None:
        """Return the statement of a request if one is known that differs in its constant only."""
        asked = _asked(request)
        found = None if asked is None else self._statements.get(asked[0])
        if found is None or asked is None:
            return None
        query = found.statement
        if not isinstance(query, Query) or not isinstance(query.where, Comparison):
            return None
        constant = asked[1]
        literal = StringLiteral(constant) if isinstance(constant, str) else IntegerLiteral(constant)
        where = replace(query.where, right=literal)
        return replace(found, statement=replace(query, where=where), text=request.text.strip())

    def remember(self, request: Request, parsed: Sequence[ParsedStatement]) -> None:
        """Remember the statement of a request if it ends in a comparison with a constant."""
        asked = _asked(request)
        if asked is None or len(parsed) != 1:
            return
        match parsed[0].statement:
            case Query(where=Comparison(right=IntegerLiteral(value) | StringLiteral(value))) if value == asked[1]:
                _make_room(self._statements)
                self._statements[asked[0]] = parsed[0]
            case _:
                pass

    def answer(self, request: Request, catalog: Catalog, settings: Config) -> Answer | None:
        """Answer a request as one that differs in its constant only, over the same catalog and settings; else None.

        Raises:
            EngineError: the query fails.
        """
        asked = _asked(request)
        found = None if asked is None else self._planned.get((asked[0], str(request.properties)))
        if found is None or asked is None or found[0] is not catalog or found[1] is not settings:
            return None
        return found[2](asked[1])

    def plan(self, request: Request, catalog: Catalog, settings: Config, look_up: LookUp) -> None:
        """Remember how the query of a request over a catalog, under settings of the server, is answered."""
        asked = _asked(request)
        if asked is not None and asked[0] in self._statements:
            _make_room(self._planned)
            self._planned[asked[0], str(request.properties)] = catalog, settings, look_up


def _asked(request: Request) -> tuple[_Shape, int | str] | None:
    """The text of a request up to its last constant, and the constant; None for one that is not worth remembering."""
    text = request.text
    if len(text) > _LONGEST or request.variables or len(request.properties) > _MOST_PROPERTIES:
        return None
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    start, string, digits = found.groups()
    if "--" in start or "/*" in start:
        return None
    if string is not None:
        return (start, "STRING"), string
    number = int(digits)
    return (start, "INTEGER" if number < 1 << 31 else "BIGINT"), number


def _make_room(known: dict[_Shape, ParsedStatement] | dict[tuple[_Shape, str], tuple[Catalog, Config, LookUp]]) -> None:
    if len(known) >= _KEPT:
        known.clear()
