"""What a step is, and the pieces that steps share."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import ClassVar

from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import Emit


class SerdeFeature(Enum):
    """Whether a single column is the bare value or an object with one field."""

    WRAP_SINGLES = "WRAP_SINGLES"
    UNWRAP_SINGLES = "UNWRAP_SINGLES"


class WindowType(Enum):
    """The three kinds of window."""

    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """A wire format by upper-case name, with its properties (such as `delimiter`)."""

    format: str
    properties: tuple[tuple[str, str], ...] = ()

    def property(self, name: str) -> str | None:
        """The property called `name`, or None."""
        return dict(self.properties).get(name)


@dataclass(frozen=True, slots=True)
class Formats:
    """How key and value of a topic are written."""

    key_format: FormatInfo
    value_format: FormatInfo
    key_features: frozenset[SerdeFeature] = frozenset()
    value_features: frozenset[SerdeFeature] = frozenset()


@dataclass(frozen=True, slots=True)
class TimestampColumn:
    """The column that gives a record its timestamp; `format` is a Java pattern, STRING columns only."""

    column: str
    format: str | None = None


@dataclass(frozen=True, slots=True)
class WindowInfo:
    """The window of a key; `size_ms` for TUMBLING and HOPPING only."""

    type: WindowType
    size_ms: int | None = field(default=None, metadata={"json": "size"})
    emit: Emit | None = field(default=None, metadata={"json": "emitStrategy"})


@dataclass(frozen=True, slots=True)
class SelectItem:
    """`expression AS alias`."""

    expression: Expression
    alias: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Root of the steps.

    A step class is one frozen dataclass per version. `tag` is its `@type`; fields are JSON fields in snake
    case (`json` metadata gives the exceptions); fields typed `Step` are its upstream steps.
    `query_context` is `properties.queryContext`, such as "Aggregate/GroupBy".
    """

    tag: ClassVar[str]
    query_context: str

    @property
    def upstream(self) -> tuple[Step, ...]:
        """The steps this one reads, left before right."""
        values = (getattr(self, f.name) for f in fields(self))
        return tuple(value for value in values if isinstance(value, Step))
