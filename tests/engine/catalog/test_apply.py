from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.catalog.apply import apply_command
from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.errors import StatementError, UnknownSourceError
from kestrel_sql.plan.commands import (
    AlterSourceV1,
    CreateStreamV1,
    CreateTableV1,
    DdlCommand,
    DropSourceV1,
    DropTypeV1,
    RegisterTypeV1,
)
from kestrel_sql.plan.step import FormatInfo, Formats, TimestampColumn, WindowInfo, WindowType
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.schema import Column, Role, Schema
from kestrel_sql.types.sql_types import BIGINT, DOUBLE, INTEGER, STRING

FORMATS = Formats(FormatInfo("KAFKA"), FormatInfo("JSON"))
SCHEMA = Schema((Column("TAG", STRING, Role.KEY), Column("KILO", DOUBLE)))
AGE = Column("AGE", INTEGER)


def apply(catalog: Catalog, command: DdlCommand, created_by: str | None = None, text: str = "...") -> Catalog:
    return apply_command(catalog, command, created_by=created_by, statement_text=text)


def stream(**more: Any) -> CreateStreamV1:
    return CreateStreamV1(**{"source_name": "HERD", "schema": SCHEMA, "topic_name": "herd", "formats": FORMATS, **more})


def alter(kind: SourceKind = SourceKind.STREAM, *columns: Column) -> AlterSourceV1:
    return AlterSourceV1(source_name="HERD", ksql_type=kind, new_columns=columns or (AGE,))


def test_a_stream_is_registered_with_all_its_fields() -> None:
    stamp, window = TimestampColumn("KILO"), WindowInfo(WindowType.SESSION)
    source = apply(
        Catalog(), stream(timestamp_column=stamp, window_info=window, is_source=True), text="CREATE"
    ).sources["HERD"]
    assert (source.kind, source.schema, source.topic, source.formats) == (SourceKind.STREAM, SCHEMA, "herd", FORMATS)
    assert (source.timestamp_column, source.window, source.is_source) == (stamp, window, True)
    assert (source.created_by, source.statement_text) == (None, "CREATE")


def test_a_table_of_a_create_as_has_the_id_of_its_query() -> None:
    command = CreateTableV1(source_name="T", schema=SCHEMA, topic_name="T", formats=FORMATS)
    source = apply(Catalog(), command, "CTAS_T_0").sources["T"]
    assert (source.kind, source.created_by) == (SourceKind.TABLE, "CTAS_T_0")


def test_an_existing_source_stays_unless_it_is_replaced() -> None:
    catalog = apply(Catalog(), stream())
    assert apply(catalog, stream(topic_name="other")) == catalog
    assert apply(catalog, stream(topic_name="other", or_replace=True)).sources["HERD"].topic == "other"


@pytest.mark.rules("P2.2")
def test_dropping_removes_a_source_and_ignores_an_unknown_one() -> None:
    catalog = apply(Catalog(), stream())
    assert apply(catalog, DropSourceV1(source_name="HERD")) == Catalog()
    assert apply(catalog, DropSourceV1(source_name="NONE")) == catalog
    assert apply(catalog, DropTypeV1(type_name="NONE")) == catalog


@pytest.mark.rules("P2.2")
def test_registering_an_existing_type_changes_nothing() -> None:
    catalog = apply(Catalog(), RegisterTypeV1(type_name="COW", type=STRING))
    assert apply(catalog, RegisterTypeV1(type_name="COW", type=BIGINT)).types == {"COW": STRING}
    assert apply(catalog, DropTypeV1(type_name="COW")).types == {}


@pytest.mark.rules("P2.3")
def test_alter_appends_value_columns() -> None:
    altered = apply(
        apply(Catalog(), stream()), alter(SourceKind.STREAM, AGE, Column("SIRE", STRING)), text="ALTER"
    ).sources["HERD"]
    assert str(altered.schema) == "`TAG` STRING KEY, `KILO` DOUBLE, `AGE` INTEGER, `SIRE` STRING"
    assert altered.statement_text == "ALTER"


@pytest.mark.rules("P2.3")
def test_alter_refuses_sources_and_columns_that_it_cannot_change() -> None:
    with pytest.raises(UnknownSourceError, match="HERD"):
        apply(Catalog(), alter())
    known = apply(Catalog(), stream())
    for catalog, command, message in [
        (known, alter(SourceKind.TABLE), "ALTER TABLE"),
        (known, alter(SourceKind.STREAM, Column("TAG", STRING)), "Cannot add column `TAG`"),
        (known, alter(SourceKind.STREAM, AGE, AGE), "Cannot add column `AGE`"),
        (apply(Catalog(), stream(), "CSAS_HERD_0"), alter(), "CREATE ... AS"),
        (apply(Catalog(), stream(is_source=True)), alter(), "source streams"),
    ]:
        with pytest.raises(StatementError, match=message):
            apply(catalog, command)


def test_the_old_catalog_does_not_change() -> None:
    catalog = Catalog()
    apply(catalog, stream())
    assert catalog.sources == {}
