"""Says in a sentence what a statement has done: the shell prints it, the server answers it."""

from __future__ import annotations

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.session.session import Executed
from kestrel_sql.sql.nodes.admin import ControlQuery, Statement
from kestrel_sql.sql.nodes.statements import AlterSource, CreateSource, CreateType, DropSource, DropType
from kestrel_sql.types.sql_types import quote


def effect_of(statement: Statement, done: Executed | None, dropped: Source | None) -> str:
    """Return what a statement has done; `dropped` is the source that it removed."""
    if done is not None and done.created_query is not None:
        return f"Created query with ID {done.created_query}"
    if isinstance(statement, CreateType | DropType) and done is not None and done.message:
        return done.message
    match statement:
        case CreateSource():
            return f"{statement.kind.value.capitalize()} created"
        case DropSource() if dropped is not None:
            return f"Source {quote(dropped.name)} (topic: {dropped.topic}) was dropped."
        case DropSource():
            return f"Source {quote(statement.name)} does not exist."
        case CreateType():
            return f"Registered custom type with name '{statement.name}' and SQL type {statement.type}"
        case DropType():
            return f"Dropped type '{statement.name}'"
        case AlterSource():
            return f"{statement.kind.value.capitalize()} {statement.name} altered."
        case ControlQuery():
            verb = {"TERMINATE": "terminated", "PAUSE": "paused", "RESUME": "resumed"}[statement.verb]
            return f"Query {verb}."
        case _:
            return "Done"
