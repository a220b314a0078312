"""What is known of the rows between two steps, however they are carried."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kestrel_sql.plan.step import FormatInfo, Formats, SerdeFeature, WindowInfo
from kestrel_sql.types.schema import Column, Schema


class KeyCodec(msgspec.Struct, frozen=True, kw_only=True):
    """The format in which operators serialise a key, to compare and to order keys."""

    format: FormatInfo
    features: frozenset[SerdeFeature] = frozenset()

    @staticmethod
    def of(formats: Formats) -> KeyCodec:
        """Return the codec of the key format of a topic."""
        return KeyCodec(format=formats.key_format, features=formats.key_features)


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """A relation between two steps of a graph.

    Attributes:
        number: its number in the graph; steps without state keep that of the relation that they read.
        level: the number of stateful levels before it.
        schema: its columns.
        is_table: whether its rows are changes of a table.
        has_old: whether its rows have the version that they replace.
        has_old_key: whether they have the key of that version, as those of a grouped table do.
        extra: further columns that an operator needs, such as a foreign key.
        window: the window of its keys.
        key_codec: the format of its keys in operators.
        topic: the topic that its keys come from, or go to.
        rekeyed: whether the key was changed since the task was set; the next operator then computes the task from the
            key.
        suppress_ms: how long (ms) after its end a suppress step holds back the result of a window.
    """

    number: int = -1
    level: int = 0
    schema: Schema
    is_table: bool = False
    has_old: bool = False
    has_old_key: bool = False
    extra: tuple[Column, ...] = ()
    window: WindowInfo | None = None
    key_codec: KeyCodec
    topic: str = ""
    rekeyed: bool = False
    suppress_ms: int = 0

    def at(self, level: int) -> Relation:
        """Return the same relation at another level."""
        return replace(self, level=level)
