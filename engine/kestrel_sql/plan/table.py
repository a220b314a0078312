"""Maps each `@type` to its step class or DDL command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import ClassVar, Protocol, TypeVar

from kestrel_sql.plan.commands import (
    AlterSourceV1,
    CreateKafkaSourceV1,
    CreateStreamV1,
    CreateTableV1,
    DdlCommand,
    DropSourceV1,
    DropTypeV1,
    RegisterTypeV1,
)
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps import aggregates, joins, kafka, sinks, sources, streams, tables


class Tagged(Protocol):
    """A class with an `@type`."""

    tag: ClassVar[str]


T = TypeVar("T", bound=Tagged)


def by_tag(classes: Iterable[type[T]]) -> Mapping[str, type[T]]:
    """Index `classes` by tag.

    Raises:
        ValueError: two classes have the same tag.
    """
    table: dict[str, type[T]] = {}
    for cls in classes:
        if cls.tag in table:
            raise ValueError(f"the tag {cls.tag} belongs to both {table[cls.tag].__name__} and {cls.__name__}")
        table[cls.tag] = cls
    return MappingProxyType(table)


def steps_of(*families: ModuleType) -> Iterator[type[Step]]:
    """Yield the steps that some modules define."""
    for family in families:
        for each in vars(family).values():
            if isinstance(each, type) and issubclass(each, Step) and each.__module__ == family.__name__:
                yield each


STEPS: Mapping[str, type[Step]] = by_tag(steps_of(sources, kafka, streams, tables, aggregates, joins, sinks))

COMMANDS: Mapping[str, type[DdlCommand]] = by_tag(
    (CreateStreamV1, CreateTableV1, CreateKafkaSourceV1, RegisterTypeV1, DropTypeV1, DropSourceV1, AlterSourceV1)
)
