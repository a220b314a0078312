"""Schemas: ordered columns, each in the key, the value or the headers of a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from kestrel_sql.types.sql_types import BIGINT, INTEGER, SqlType, quote


class Role(Enum):
    """The part of a record that holds a column."""

    KEY = "KEY"
    VALUE = "VALUE"
    HEADERS = "HEADERS"


class Column(msgspec.Struct, frozen=True):
    """A named, typed column; `header_key` is set for HEADER('k') columns only."""

    name: str
    type: SqlType
    role: Role = Role.VALUE
    header_key: str | None = None

    def __str__(self) -> str:
        """Write the column as it stands in a schema string (rules P4.5)."""
        text = f"{quote(self.name)} {self.type}"
        match self.role, self.header_key:
            case Role.KEY, _:
                return f"{text} KEY"
            case Role.HEADERS, None:
                return f"{text} HEADERS"
            case Role.HEADERS, str(key):
                doubled = key.replace("'", "''")
                return f"{text} HEADER('{doubled}')"
            case _:
                return text


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a source, in the order of their declaration, or of a step, key columns first."""

    columns: tuple[Column, ...]
    key: tuple[Column, ...] = field(init=False, compare=False, repr=False)
    """The key columns."""
    value: tuple[Column, ...] = field(init=False, compare=False, repr=False)
    """The value columns, without header columns."""

    def __post_init__(self) -> None:
        """Find the columns that are asked for again and again."""
        object.__setattr__(self, "key", tuple(c for c in self.columns if c.role is Role.KEY))
        object.__setattr__(self, "value", tuple(c for c in self.columns if c.role is Role.VALUE))

    @property
    def keys_first(self) -> tuple[Column, ...]:
        """The key columns, then the others in their order."""
        return (*self.key, *(c for c in self.columns if c.role is not Role.KEY))

    @property
    def headers(self) -> tuple[Column, ...]:
        """The header columns."""
        return tuple(c for c in self.columns if c.role is Role.HEADERS)

    def find(self, name: str) -> Column | None:
        """Return the first column called exactly `name`, or None."""
        return next((c for c in self.columns if c.name == name), None)

    def __str__(self) -> str:
        return ", ".join(map(str, self.columns))


ROWTIME = Column("ROWTIME", BIGINT)
ROWPARTITION = Column("ROWPARTITION", INTEGER)
ROWOFFSET = Column("ROWOFFSET", BIGINT)
WINDOWSTART = Column("WINDOWSTART", BIGINT)
WINDOWEND = Column("WINDOWEND", BIGINT)

PSEUDO_COLUMNS: dict[int, tuple[Column, ...]] = {0: (ROWTIME,), 1: (ROWTIME, ROWPARTITION, ROWOFFSET)}
WINDOW_BOUNDS = (WINDOWSTART, WINDOWEND)
SYSTEM_NAMES = frozenset(c.name for c in (*PSEUDO_COLUMNS[1], *WINDOW_BOUNDS))
