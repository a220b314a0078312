"""Statement nodes; they compare by structure and ignore spans."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from enum import Enum

from kestrel_sql.sql.nodes.expressions import Expression, Node
from kestrel_sql.types.sql_types import SqlType
from kestrel_sql.types.time_units import UNIT_MS

PropertyValue = str | int | decimal.Decimal | float | bool | None
Properties = tuple[tuple[str, PropertyValue], ...]
"""WITH properties in order, with names in upper case."""


class SourceKind(Enum):
    """The two kinds of source."""

    STREAM = "STREAM"
    TABLE = "TABLE"


class ElementRole(Enum):
    """The keywords after the type of a column element."""

    NONE = ""
    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    HEADERS = "HEADERS"
    HEADER = "HEADER"


class JoinType(Enum):
    """Join types; the value is the name in plans."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    OUTER = "OUTER"


class Emit(Enum):
    """EMIT clause."""

    CHANGES = "CHANGES"
    FINAL = "FINAL"


@dataclass(frozen=True, slots=True)
class TimeSpan(Node):
    """A count of time units; `unit` is upper case and plural, such as SECONDS."""

    value: int
    unit: str

    @property
    def millis(self) -> int:
        """The length in ms."""
        return self.value * UNIT_MS[self.unit]


@dataclass(frozen=True, slots=True)
class TumblingWindow(Node):
    """WINDOW TUMBLING."""

    size: TimeSpan
    retention: TimeSpan | None = None
    grace: TimeSpan | None = None


@dataclass(frozen=True, slots=True)
class HoppingWindow(Node):
    """WINDOW HOPPING."""

    size: TimeSpan
    advance: TimeSpan
    retention: TimeSpan | None = None
    grace: TimeSpan | None = None


@dataclass(frozen=True, slots=True)
class SessionWindow(Node):
    """WINDOW SESSION."""

    gap: TimeSpan
    retention: TimeSpan | None = None
    grace: TimeSpan | None = None


Window = TumblingWindow | HoppingWindow | SessionWindow


@dataclass(frozen=True, slots=True)
class AliasedSource(Node):
    """A source in FROM; `alias` equals `name` if the text has none."""

    name: str
    alias: str


@dataclass(frozen=True, slots=True)
class Within(Node):
    """WITHIN of a stream-stream join."""

    before: TimeSpan
    after: TimeSpan
    grace: TimeSpan | None = None


@dataclass(frozen=True, slots=True)
class Join(Node):
    """One JOIN of a FROM clause."""

    type: JoinType
    source: AliasedSource
    criteria: Expression
    within: Within | None = None


@dataclass(frozen=True, slots=True)
class SelectExpression(Node):
    """An expression of a projection, with its alias if the text has one."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class SelectAll(Node):
    """`*` or `alias.*`."""

    qualifier: str | None = None


@dataclass(frozen=True, slots=True)
class SelectStructAll(Node):
    """`expression->*`."""

    expression: Expression


SelectItem = SelectExpression | SelectAll | SelectStructAll


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A SELECT; joins are left-deep in textual order."""

    select: tuple[SelectItem, ...]
    source: AliasedSource
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] | None = None
    partition_by: tuple[Expression, ...] | None = None
    having: Expression | None = None
    emit: Emit | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Element(Node):
    """A column of a CREATE or ASSERT statement; `header_key` is set for HEADER('k') only."""

    name: str
    type: SqlType
    role: ElementRole = ElementRole.NONE
    header_key: str | None = None


@dataclass(frozen=True, slots=True)
class CreateSource(Node):
    """CREATE [OR REPLACE] [SOURCE] STREAM|TABLE over a topic."""

    kind: SourceKind
    name: str
    elements: tuple[Element, ...]
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False
    is_source: bool = False


@dataclass(frozen=True, slots=True)
class CreateAs(Node):
    """CREATE [OR REPLACE] STREAM|TABLE … AS SELECT."""

    kind: SourceKind
    name: str
    query: Query
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class InsertInto(Node):
    """INSERT INTO … SELECT."""

    target: str
    query: Query
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class InsertValues(Node):
    """INSERT INTO … VALUES; no columns means all columns."""

    target: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class DropSource(Node):
    """DROP STREAM|TABLE."""

    kind: SourceKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, slots=True)
class CreateType(Node):
    """CREATE TYPE."""

    name: str
    type: SqlType
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropType(Node):
    """DROP TYPE."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterSource(Node):
    """ALTER STREAM|TABLE … ADD COLUMN."""

    kind: SourceKind
    name: str
    columns: tuple[tuple[str, SqlType], ...]


@dataclass(frozen=True, slots=True)
class SetProperty(Node):
    """SET 'name' = 'value'."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class UnsetProperty(Node):
    """UNSET 'name'."""

    name: str


@dataclass(frozen=True, slots=True)
class AlterSystem(Node):
    """ALTER SYSTEM 'name' = 'value'."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class DefineVariable(Node):
    """DEFINE name = 'value'."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class UndefineVariable(Node):
    """UNDEFINE name."""

    name: str


SESSION_STATEMENTS = (SetProperty, UnsetProperty, DefineVariable, UndefineVariable)
"""The statements that change nothing but what holds for those that follow."""
