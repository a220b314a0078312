"""Answers each admin statement: by an entity of ksqlDB's API and what a terminal shows of it, or by lines."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.entities.answers import entity_of
from kestrel_sql.admin.print_topic import print_topic
from kestrel_sql.admin.shown import shown
from kestrel_sql.admin.view import EngineView
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.sql.parse.parser import ParsedStatement


def answer_of(parsed: ParsedStatement, view: EngineView) -> Answer | None:
    """Answer an admin statement; return None for any other statement.

    Raises:
        StatementError: the statement names a thing that does not exist, or an assertion fails.
    """
    if isinstance(parsed.statement, PrintTopic):
        return print_topic(parsed.statement, view)
    entity = entity_of(parsed.statement, parsed.text, view)
    if entity is None:
        return None
    answer = shown(entity)
    said = [answer.message, *(str(each["message"]) for each in entity["warnings"])]
    return replace(answer, entity=entity, message="\n".join(filter(None, said)))
