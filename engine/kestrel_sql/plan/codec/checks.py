"""Checks the parts of a plan beyond the types of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.errors import NewerPlanError, PlanError
from kestrel_sql.plan.commands import CreateKafkaSourceV1, CreateTableV1
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.plan.ingestion import HEADER_ITEMS, Envelope, IngestionSpec, MetadataColumn
from kestrel_sql.plan.step import WindowInfo, WindowType
from kestrel_sql.plan.steps.aggregates import TableSuppressV1
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1, StreamTableJoinV1
from kestrel_sql.plan.steps.kafka import KafkaStreamSourceV1, KafkaTableSourceV1
from kestrel_sql.plan.steps.sources import (
    StreamSourceV1,
    TableSourceV1,
    TableSourceV2,
    WindowedStreamSourceV1,
    WindowedTableSourceV1,
)
from kestrel_sql.plan.steps.streams import StreamGroupByV1, StreamGroupByV2
from kestrel_sql.plan.steps.tables import TableGroupByV1, TableGroupByV2
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import Struct

Source = StreamSourceV1 | TableSourceV1 | TableSourceV2 | WindowedStreamSourceV1 | WindowedTableSourceV1
KafkaSource = KafkaStreamSourceV1 | KafkaTableSourceV1

PSEUDO_COLUMN_VERSIONS: Mapping[type, tuple[int, ...]] = {
    StreamSourceV1: (0, 1),
    WindowedStreamSourceV1: (0, 1),
    WindowedTableSourceV1: (0, 1),
    TableSourceV1: (0,),
    TableSourceV2: (1,),
    KafkaStreamSourceV1: (1,),
    KafkaTableSourceV1: (1,),
}
"""The pseudo-column versions that each source step allows."""

JOIN_TYPES: Mapping[type, tuple[JoinType, ...]] = dict.fromkeys(
    (StreamTableJoinV1, FkTableTableJoinV1), (JoinType.INNER, JoinType.LEFT)
)
"""The joins that allow some join types only (rules P5)."""


def _statement(plan: StatementPlan, path: str) -> None:
    if plan.ddl_command is None and plan.query_plan is None:
        raise PlanError("a statement needs a ddlCommand, a queryPlan or both", path=path)


def _table(command: CreateTableV1, path: str) -> None:
    if not command.schema.key:
        raise PlanError("a table needs at least one key column", path=f"{path}.schema")


def _window_info(window: WindowInfo, path: str) -> None:
    sized = window.type is not WindowType.SESSION
    if sized != (window.size_ms is not None):
        raise PlanError(f"a {window.type.value} window {'needs a' if sized else 'has no'} size", path=f"{path}.size")
    if window.size_ms == 0:
        raise PlanError("the size of a window must be greater than zero", path=f"{path}.size")


def _source(step: Source | KafkaSource, path: str) -> None:
    known = PSEUDO_COLUMN_VERSIONS[type(step)]
    if step.pseudo_column_version not in known:
        message = f"expected version {' or '.join(map(str, known))} of the pseudo columns"
        part = f"version {step.pseudo_column_version} of the pseudo columns"
        raise NewerPlanError(message, path=f"{path}.pseudoColumnVersion", part=part)


def _metadata(column: MetadataColumn, path: str) -> None:
    if (column.item in HEADER_ITEMS) != (column.header_key is not None):
        items = " and ".join(sorted(item.value for item in HEADER_ITEMS))
        raise PlanError(f"a header key belongs to {items}, and to no other item", path=f"{path}.headerKey")


def _ingestion(ingestion: IngestionSpec, path: str) -> None:
    if ingestion.inline_errors and ingestion.envelope is not Envelope.UPSERT:
        raise PlanError("only ENVELOPE UPSERT has a column for decoding errors", path=f"{path}.inlineErrors")
    if ingestion.envelope is not Envelope.NONE and not ingestion.message_schema.key:
        raise PlanError(f"ENVELOPE {ingestion.envelope.value} needs a key column", path=f"{path}.messageSchema")
    if ingestion.envelope is Envelope.DEBEZIUM and [type(c.type) for c in ingestion.message_schema.value] != [Struct]:
        raise PlanError(
            "ENVELOPE DEBEZIUM needs one value column, a STRUCT with the after-image", path=f"{path}.messageSchema"
        )


def _ingested_schema(schema: Schema, ingestion: IngestionSpec, path: str) -> None:
    """Check that the types of a source's columns are those that its ingestion spec produces; names may differ."""
    if tuple(c.type for c in schema.key) != ingestion.key_types():
        raise PlanError("the types of the key columns are not those that the intake produces", path=path)
    if tuple(c.type for c in schema.value) != ingestion.value_types() or schema.headers:
        raise PlanError("the types of the value columns are not those that the intake produces", path=path)


def _kafka_command(command: CreateKafkaSourceV1, path: str) -> None:
    _ingested_schema(command.schema, command.ingestion, f"{path}.schema")


def _kafka_source(step: KafkaSource, path: str) -> None:
    _source(step, path)
    _ingested_schema(step.source_schema, step.ingestion, f"{path}.sourceSchema")


def _join_type(step: StreamTableJoinV1 | FkTableTableJoinV1, path: str) -> None:
    known = JOIN_TYPES[type(step)]
    if step.join_type not in known:
        expected = " or ".join(kind.value for kind in known)
        raise PlanError(f"expected {expected}, got {step.join_type.value}", path=f"{path}.joinType")


def _foreign_key(step: FkTableTableJoinV1, path: str) -> None:
    _join_type(step, path)
    if (step.left_join_column_name is None) == (step.left_join_expression is None):
        raise PlanError("expected exactly one of leftJoinColumnName and leftJoinExpression", path=path)


def _group_by(step: StreamGroupByV1 | StreamGroupByV2 | TableGroupByV1 | TableGroupByV2, path: str) -> None:
    if not step.group_by_expressions:
        raise PlanError("expected at least one expression", path=f"{path}.groupByExpressions")


def _suppress(step: TableSuppressV1, path: str) -> None:
    if step.refinement_info != "FINAL":
        raise PlanError("expected FINAL", path=f"{path}.refinementInfo.outputRefinement")


CHECKS: Mapping[type, Callable[[Any, str], None]] = {
    StatementPlan: _statement,
    CreateTableV1: _table,
    WindowInfo: _window_info,
    **dict.fromkeys(PSEUDO_COLUMN_VERSIONS, _source),
    IngestionSpec: _ingestion,
    MetadataColumn: _metadata,
    CreateKafkaSourceV1: _kafka_command,
    KafkaStreamSourceV1: _kafka_source,
    KafkaTableSourceV1: _kafka_source,
    StreamTableJoinV1: _join_type,
    FkTableTableJoinV1: _foreign_key,
    TableSuppressV1: _suppress,
    **dict.fromkeys((StreamGroupByV1, StreamGroupByV2, TableGroupByV1, TableGroupByV2), _group_by),
}
