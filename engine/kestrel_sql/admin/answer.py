"""Defines the answer to a statement: an entity of ksqlDB's API, a table, a message."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import STRING, SqlType

Entity = dict[str, Any]
"""A JSON object with `@type`, as the API of ksqlDB answers a statement."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a statement.

    Attributes:
        columns: the columns of the rows; empty if there is only a message.
        rows: the values, one tuple per row.
        message: a sentence; may be empty.
        lines: rows that are lines of text, where there is no table.
        tombstones: the indexes of rows that are tombstones, which delete a key.
        limited: whether a LIMIT ended the answer.
        entity: what a server answers; None for the answer to a query and to PRINT.
    """

    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    message: str = ""
    lines: tuple[str, ...] = ()
    tombstones: frozenset[int] = frozenset()
    limited: bool = False
    entity: Entity | None = None

    @property
    def warns(self) -> bool:
        """Whether it says that a statement was not carried out as written."""
        return self.entity is not None and (self.entity["@type"] == "warning_entity" or bool(self.entity["warnings"]))


def message_answer(message: str) -> Answer:
    """Return an answer without rows."""
    return Answer(message=message)


def table(columns: Iterable[tuple[str, SqlType] | str], rows: Iterable[Iterable[object]]) -> Answer:
    """Return an answer with rows; a column without a type is a STRING."""
    typed = tuple(Column(each, STRING) if isinstance(each, str) else Column(*each) for each in columns)
    return Answer(columns=typed, rows=tuple(tuple(row) for row in rows))


def moment(timestamp: int) -> str:
    """A timestamp (ms) as text; one out of the calendar's range stays a number."""
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except OverflowError:
        return str(timestamp)
