"""Statement nodes; they compare by structure and ignore spans."""

from __future__ import annotations

import decimal
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


class TimeSpan(Node, frozen=True):
    """A count of time units; `unit` is upper case and plural, such as SECONDS."""

    value: int
    unit: str

    @property
    def millis(self) -> int:
        """The length in ms."""
        return self.value * UNIT_MS[self.unit]


class TumblingWindow(Node, frozen=True):
    """WINDOW TUMBLING."""

    size: TimeSpan
    retention: TimeSpan | None = None
    grace: TimeSpan | None = None


class HoppingWindow(Node, frozen=True):
    """WINDOW HOPPING."""

    size: TimeSpan
    advance: TimeSpan
    retention: TimeSpan | None = None
    grace: TimeSpan | None = None


class SessionWindow(Node, frozen=True):
    """WINDOW SESSION."""

    gap: TimeSpan
    retention: TimeSpan | None = None
    grace: TimeSpan | None = None


Window = TumblingWindow | HoppingWindow | SessionWindow


class AliasedSource(Node, frozen=True):
    """A source in FROM; `alias` equals `name` if the text has none."""

    name: str
    alias: str


class Within(Node, frozen=True):
    """WITHIN of a stream-stream join."""

    before: TimeSpan
    after: TimeSpan
    grace: TimeSpan | None = None


class Join(Node, frozen=True):
    """One JOIN of a FROM clause."""

    type: JoinType
    source: AliasedSource
    criteria: Expression
    within: Within | None = None


class SelectExpression(Node, frozen=True):
    """An expression of a projection, with its alias if the text has one."""

    expression: Expression
    alias: str | None = None


class SelectAll(Node, frozen=True):
    """`*` or `alias.*`."""

    qualifier: str | None = None


class SelectStructAll(Node, frozen=True):
    """`expression->*`."""

    expression: Expression


SelectItem = SelectExpression | SelectAll | SelectStructAll


class Query(Node, frozen=True):
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


class Element(Node, frozen=True):
    """A column of a CREATE or ASSERT statement; `header_key` is set for HEADER('k') only."""

    name: str
    type: SqlType
    role: ElementRole = ElementRole.NONE
    header_key: str | None = None


class CreateSource(Node, frozen=True):
    """CREATE [OR REPLACE] [SOURCE] STREAM|TABLE over a topic."""

    kind: SourceKind
    name: str
    elements: tuple[Element, ...]
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False
    is_source: bool = False


class CreateAs(Node, frozen=True):
    """CREATE [OR REPLACE] STREAM|TABLE … AS SELECT."""

    kind: SourceKind
    name: str
    query: Query
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False


class InsertInto(Node, frozen=True):
    """INSERT INTO … SELECT."""

    target: str
    query: Query
    properties: Properties = ()


class InsertValues(Node, frozen=True):
    """INSERT INTO … VALUES; no columns means all columns."""

    target: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


class DropSource(Node, frozen=True):
    """DROP STREAM|TABLE."""

    kind: SourceKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False


class CreateType(Node, frozen=True):
    """CREATE TYPE."""

    name: str
    type: SqlType
    if_not_exists: bool = False


class DropType(Node, frozen=True):
    """DROP TYPE."""

    name: str
    if_exists: bool = False


class AlterSource(Node, frozen=True):
    """ALTER STREAM|TABLE … ADD COLUMN."""

    kind: SourceKind
    name: str
    columns: tuple[tuple[str, SqlType], ...]


class SetProperty(Node, frozen=True):
    """SET 'name' = 'value'."""

    name: str
    value: str


class UnsetProperty(Node, frozen=True):
    """UNSET 'name'."""

    name: str


class AlterSystem(Node, frozen=True):
    """ALTER SYSTEM 'name' = 'value'."""

    name: str
    value: str


class DefineVariable(Node, frozen=True):
    """DEFINE name = 'value'."""

    name: str
    value: str


class UndefineVariable(Node, frozen=True):
    """UNDEFINE name."""

    name: str


SESSION_STATEMENTS = (SetProperty, UnsetProperty, DefineVariable, UndefineVariable)
"""The statements that change nothing but what holds for those that follow."""
