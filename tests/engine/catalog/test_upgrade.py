"""What CREATE OR REPLACE may change."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.catalog.upgrade import check_plan_upgrade, check_source_upgrade
from kestrel_sql.errors import StatementError
from kestrel_sql.plan.step import FormatInfo, Formats, SelectItem, Step, TimestampColumn, WindowInfo, WindowType
from kestrel_sql.plan.steps.aggregates import StreamAggregateV1
from kestrel_sql.plan.steps.sinks import StreamSinkV1
from kestrel_sql.plan.steps.sources import StreamSourceV1
from kestrel_sql.plan.steps.streams import StreamFilterV1, StreamFlatMapV1, StreamGroupByKeyV1, StreamSelectV1
from kestrel_sql.sql.nodes.expressions import BooleanLiteral, ColumnRef
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.schema import Column, Role, Schema
from kestrel_sql.types.sql_types import INTEGER, STRING

FORMATS = Formats(FormatInfo("KAFKA"), FormatInfo("JSON"))
K, V, W = Column("K", STRING, Role.KEY), Column("V", INTEGER), Column("W", INTEGER)
OLD = Source(name="S", kind=SourceKind.STREAM, schema=Schema((K, V)), topic="s", formats=FORMATS)


def test_value_columns_may_be_appended() -> None:
    check_source_upgrade(OLD, replace(OLD, schema=Schema((K, V, W))))


@pytest.mark.parametrize(
    ("new", "gist"),
    [
        (replace(OLD, topic="x"), "DataSource '`S`' has topic = s which is not upgradeable to x"),
        (replace(OLD, kind=SourceKind.TABLE), "has type = STREAM which is not upgradeable to TABLE"),
        (
            replace(OLD, formats=Formats(FormatInfo("JSON"), FormatInfo("DELIMITED", (("delimiter", "|"),)))),
            "has formats = key KAFKA, value JSON which is not upgradeable to key JSON, value DELIMITED delimiter=|",
        ),
        (
            replace(OLD, window=WindowInfo(WindowType.TUMBLING, 1000)),
            "has window = none which is not upgradeable to TUMBLING of 1000 ms",
        ),
        (
            replace(OLD, timestamp_column=TimestampColumn("V")),
            "has timestamp column = none which is not upgradeable to `V`",
        ),
        (
            replace(OLD, schema=Schema((K, W, V))),
            "(The following columns are changed, missing or reordered: [`V` INTEGER])",
        ),
        (replace(OLD, schema=Schema((K,))), "missing or reordered: [`V` INTEGER])"),
        (replace(OLD, schema=Schema((V,))), "Key columns must be identical. Differing key columns: [`K` STRING KEY]"),
    ],
)
def test_no_other_change_of_a_source_is_allowed(new: Source, gist: str) -> None:
    with pytest.raises(StatementError) as caught:
        check_source_upgrade(OLD, new)
    assert caught.value.message.startswith("Cannot upgrade data source: ")
    assert gist in caught.value.message


SOURCE = StreamSourceV1(query_context="S", topic_name="t", formats=FORMATS, source_schema=Schema((K, V)))


def filtered(step: Step) -> Step:
    return StreamFilterV1(query_context="F", source=step, filter_expression=BooleanLiteral(True))


def projected(step: Step, column: str = "V") -> Step:
    return StreamSelectV1(query_context="P", source=step, select_expressions=(SelectItem(ColumnRef(column), "V"),))


def written(step: Step) -> Step:
    return StreamSinkV1(query_context="O", source=step, formats=FORMATS, topic_name="o")


def aggregated(step: Step, *columns: str) -> Step:
    grouped = StreamGroupByKeyV1(query_context="G", source=step, internal_formats=FORMATS)
    return StreamAggregateV1(
        query_context="A",
        source=grouped,
        internal_formats=FORMATS,
        non_aggregate_columns=columns,
        aggregation_functions=(),
    )


def test_filters_and_projections_may_change() -> None:
    check_plan_upgrade(written(projected(SOURCE)), written(projected(filtered(SOURCE), "W")))
    check_plan_upgrade(written(filtered(SOURCE)), written(SOURCE))


@pytest.mark.rules("L5.22")
@pytest.mark.parametrize(
    ("old", "new", "gist"),
    [
        (
            aggregated(SOURCE, "ID", "ROWTIME"),
            aggregated(SOURCE, "ID", "V"),
            "must have matching columns not part of aggregate. Values differ: [`ID`, `ROWTIME`] vs. [`ID`, `V`]",
        ),
        (
            written(SOURCE),
            written(replace(SOURCE, topic_name="u")),
            "StreamSource must have matching topic name. Values differ: t vs. u",
        ),
        (
            StreamFlatMapV1(query_context="M", source=SOURCE, table_functions=()),
            SOURCE,
            "Upgrades not yet supported for StreamFlatMap",
        ),
        (
            written(SOURCE),
            written(aggregated(SOURCE)),
            "Plan type StreamAggregate cannot take the place of StreamSource",
        ),
    ],
)
def test_other_steps_must_not_change(old: Step, new: Step, gist: str) -> None:
    with pytest.raises(StatementError) as caught:
        check_plan_upgrade(old, new)
    assert gist in caught.value.message
