"""Defines the base class of steps and the values that steps share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import ClassVar, get_type_hints

import msgspec

from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import Emit
from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import SqlType


class SerdeFeature(Enum):
    """Whether a single column is written as an object with one field (WRAP) or as the bare value (UNWRAP)."""

    WRAP_SINGLES = "WRAP_SINGLES"
    UNWRAP_SINGLES = "UNWRAP_SINGLES"


class WindowType(Enum):
    """The three kinds of window."""

    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


class FormatInfo(msgspec.Struct, frozen=True):
    """A serde format: its name in upper case and its properties, such as `delimiter`."""

    format: str
    properties: tuple[tuple[str, str], ...] = ()

    def property(self, name: str) -> str | None:
        """The value of the property `name`, or None."""
        return dict(self.properties).get(name)


class Formats(msgspec.Struct, frozen=True):
    """The key and value formats of a topic."""

    key_format: FormatInfo
    value_format: FormatInfo
    key_features: frozenset[SerdeFeature] = frozenset()
    value_features: frozenset[SerdeFeature] = frozenset()


class TimestampColumn(msgspec.Struct, frozen=True):
    """The column that gives a record its timestamp; `format` is a Java pattern, for STRING columns only."""

    column: str
    format: str | None = None


class WindowInfo(msgspec.Struct, frozen=True):
    """The window of a windowed key; `size_ms` is set for TUMBLING and HOPPING only."""

    type: WindowType
    size_ms: int | None = msgspec.field(default=None, name="size")
    emit: Emit | None = msgspec.field(default=None, name="emitStrategy")


class SelectItem(msgspec.Struct, frozen=True):
    """`expression AS alias`."""

    expression: Expression
    alias: str


class Shown(msgspec.Struct, frozen=True):
    """The word in front of the value of a field where steps are shown to people."""

    word: str


@cache
def words_of(step: type[Step]) -> Mapping[str, str]:
    """The fields of a step that are shown to people, each with its word."""
    hints = get_type_hints(step, include_extras=True)
    shown = ((name, part) for name, hint in hints.items() for part in getattr(hint, "__metadata__", ()))
    return {name: part.word for name, part in shown if isinstance(part, Shown)}


Typer = Callable[[Expression, Mapping[str, SqlType]], SqlType | None]
"""Returns the type of an expression over named columns, None for an untyped NULL."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of all steps; a step says here all that the engine knows about it, except how to run it.

    Each version of a step is a frozen class of its own. `tag` is its `@type` in JSON. A field's JSON name is its name
    in camel case unless `msgspec.field(name=…)` says otherwise. Fields of type `Step` are the upstream steps.
    `query_context` is `properties.queryContext` in JSON, such as "Aggregate/GroupBy".

    Attributes:
        row_by_row: whether it gets the values of the step before it as they are, without a serde between (rule U4.7).
        shareable: whether its rows do not depend on when its query began, so that clients may share the query.
        passive: whether an upgrade may add, remove and change it: it keeps no state (rules L5).
        kept: the fields that an upgrade must not change; None if no upgrade supports the step.
    """

    tag: ClassVar[str]
    row_by_row: ClassVar[bool] = False
    shareable: ClassVar[bool] = False
    passive: ClassVar[bool] = False
    kept: ClassVar[tuple[str, ...] | None] = None
    query_context: str

    def schema(self, inputs: Sequence[Schema], typer: Typer) -> Schema:
        """Return the columns of the rows that it emits, from those of its upstream steps (left before right; rules P6).

        Raises:
            PlanError: a field does not fit the inputs.
            TypeMismatchError: an expression is an untyped NULL.
        """
        (source,) = inputs
        return source

    def result_schema(self, typer: Typer) -> Schema:
        """Return the columns of the rows that it emits, computed from the sources on; raises as `schema`."""
        return self.schema([source.result_schema(typer) for source in self.upstream], typer)

    @property
    def has_old_rows(self) -> bool:
        """Whether changes of the table come with the rows that they replace."""
        return True

    @property
    def reads_old_rows(self) -> bool:
        """Whether it needs these rows of its input even if nothing reads its own."""
        return True

    @property
    def upstream(self) -> tuple[Step, ...]:
        """The steps that this one reads, left before right."""
        values = (getattr(self, name) for name in self.__struct_fields__)
        return tuple(value for value in values if isinstance(value, Step))

    def steps(self) -> Iterator[Step]:
        """Return this step and all steps upstream of it."""
        yield self
        for upstream in self.upstream:
            yield from upstream.steps()
