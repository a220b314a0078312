"""Maps each `@type` to its step class or DDL command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
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
from kestrel_sql.plan.steps.aggregates import (
    StreamAggregateV1,
    StreamWindowedAggregateV1,
    TableAggregateV1,
    TableSuppressV1,
)
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1, StreamHeadersV1, TableHeadersV1
from kestrel_sql.plan.steps.sinks import StreamSinkV1, TableSinkV1
from kestrel_sql.plan.steps.sources import (
    StreamSourceV1,
    TableSourceV1,
    TableSourceV2,
    WindowedStreamSourceV1,
    WindowedTableSourceV1,
)
from kestrel_sql.plan.steps.streams import (
    StreamFilterV1,
    StreamFlatMapV1,
    StreamGroupByKeyV1,
    StreamGroupByV1,
    StreamGroupByV2,
    StreamSelectKeyV1,
    StreamSelectKeyV2,
    StreamSelectV1,
)
from kestrel_sql.plan.steps.tables import TableFilterV1, TableGroupByV1, TableGroupByV2, TableSelectKeyV1, TableSelectV1


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


STEPS: Mapping[str, type[Step]] = by_tag(
    (
        StreamSourceV1,
        WindowedStreamSourceV1,
        TableSourceV1,
        TableSourceV2,
        WindowedTableSourceV1,
        KafkaStreamSourceV1,
        KafkaTableSourceV1,
        StreamFilterV1,
        StreamSelectV1,
        StreamFlatMapV1,
        StreamSelectKeyV1,
        StreamSelectKeyV2,
        StreamGroupByKeyV1,
        StreamGroupByV1,
        StreamGroupByV2,
        TableFilterV1,
        TableSelectV1,
        TableSelectKeyV1,
        TableGroupByV1,
        TableGroupByV2,
        StreamAggregateV1,
        StreamWindowedAggregateV1,
        TableAggregateV1,
        TableSuppressV1,
        StreamStreamJoinV1,
        StreamTableJoinV1,
        TableTableJoinV1,
        FkTableTableJoinV1,
        StreamHeadersV1,
        TableHeadersV1,
        StreamSinkV1,
        TableSinkV1,
    )
)

COMMANDS: Mapping[str, type[DdlCommand]] = by_tag(
    (CreateStreamV1, CreateTableV1, CreateKafkaSourceV1, RegisterTypeV1, DropTypeV1, DropSourceV1, AlterSourceV1)
)
