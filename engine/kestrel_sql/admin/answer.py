"""What a statement answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import STRING, SqlType


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows with their columns, and a sentence; either may be missing.

    `tombstones` are the positions of rows that say that a key is gone; a list that ended by itself is not `limited`.
    """

    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    message: str = ""
    tombstones: frozenset[int] = frozenset()
    limited: bool = False


def said(message: str) -> Answer:
    """An answer that is only a sentence."""
    return Answer(message=message)


def table(columns: Iterable[tuple[str, SqlType] | str], rows: Iterable[Iterable[object]]) -> Answer:
    """Rows under named columns; a bare name is that of a STRING column."""
    named = tuple(Column(each, STRING) if isinstance(each, str) else Column(*each) for each in columns)
    return Answer(columns=named, rows=tuple(tuple(row) for row in rows))
