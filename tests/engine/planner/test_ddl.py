"""Plans and errors of CREATE over a topic, DROP, ALTER and custom types."""

from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.catalog.apply import source_of
from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.errors import EngineError, StatementError
from kestrel_sql.formats.registry.memory import MemoryRegistry
from kestrel_sql.plan.commands import AlterSourceV1, CreateStreamV1, CreateTableV1, DropSourceV1, RegisterTypeV1
from kestrel_sql.plan.step import SerdeFeature, TimestampColumn, WindowInfo, WindowType
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.ddl.statements import (
    CreateCommand,
    SourceUse,
    plan_alter,
    plan_create_source,
    plan_create_type,
    plan_drop,
    plan_drop_type,
)
from kestrel_sql.sql.nodes.statements import (
    AlterSource,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    Element,
    ElementRole,
    Properties,
    SourceKind,
)
from kestrel_sql.types.schema import Column, Role
from kestrel_sql.types.sql_types import (
    BIGINT,
    BYTES,
    HEADERS_TYPE,
    INTEGER,
    STRING,
    Array,
    Field,
    Map,
    NamedType,
    SqlType,
    Struct,
)

STREAM, TABLE = SourceKind.STREAM, SourceKind.TABLE
JSON: Properties = (("KAFKA_TOPIC", "t"), ("VALUE_FORMAT", "JSON"))
K = Element("K", STRING, ElementRole.KEY)
PK = Element("K", STRING, ElementRole.PRIMARY_KEY)
V = Element("V", INTEGER)


def source(*elements: Element, kind: SourceKind = STREAM, more: Properties = (), **flags: Any) -> CreateSource:
    return CreateSource(kind, "S", elements, (*JSON, *more), **flags)


def plan(statement: CreateSource, catalog: Catalog | None = None, **settings: Any) -> CreateCommand:
    command = plan_create_source(
        statement,
        catalog or Catalog(),
        Config.of({k.replace("_", "."): v for k, v in settings.items()}),
        MemoryRegistry(),
    )
    assert command is not None
    return command


def registered(statement: CreateSource) -> Catalog:
    return Catalog().with_source(source_of(plan(statement)))


def test_a_stream_takes_defaults() -> None:
    command = plan(source(V, K))
    assert isinstance(command, CreateStreamV1)
    assert str(command.schema) == "`V` INTEGER, `K` STRING KEY"
    assert (command.topic_name, command.formats.key_format.format, command.formats.value_format.format) == (
        "t",
        "KAFKA",
        "JSON",
    )
    assert command.formats.key_features == command.formats.value_features == frozenset()


def test_a_windowed_table_with_a_timestamp_column() -> None:
    more: Properties = (
        ("WINDOW_TYPE", "tumbling"),
        ("WINDOW_SIZE", "3 Minutes"),
        ("TIMESTAMP", "ts"),
        ("TIMESTAMP_FORMAT", "yyyy"),
    )
    command = plan(source(PK, Element("TS", STRING), kind=TABLE, more=more))
    assert isinstance(command, CreateTableV1)
    assert command.window_info == WindowInfo(WindowType.TUMBLING, 180_000)
    assert command.timestamp_column == TimestampColumn("TS", "yyyy")


def test_single_json_keys_are_bare() -> None:
    command = plan(source(K, V, more=(("KEY_FORMAT", "json"),)))
    assert command.formats.key_features == {SerdeFeature.UNWRAP_SINGLES}


def test_wrapping_of_a_single_value() -> None:
    config: dict[str, Any] = {"ksql_persistence_wrap_single_values": False}
    assert plan(source(V), **config).formats.value_features == {SerdeFeature.UNWRAP_SINGLES}
    explicit = plan(source(V, more=(("WRAP_SINGLE_VALUE", True),)), **config)
    assert explicit.formats.value_features == {SerdeFeature.WRAP_SINGLES}


def test_custom_types_are_resolved_at_any_depth() -> None:
    catalog = Catalog().with_type("ID", BIGINT)
    command = plan(source(Element("V", Array(NamedType("ID")))), catalog)
    assert command.schema.columns[0].type == Array(BIGINT)


@pytest.mark.parametrize(
    ("elements", "kind", "gist"),
    [
        ((V,), TABLE, "Tables require a PRIMARY KEY"),
        ((K, V), TABLE, "Column `K` is a 'KEY' column: please use 'PRIMARY KEY' for tables."),
        ((PK, V), STREAM, "please use 'KEY' for streams"),
        ((), STREAM, "No columns supplied."),
        ((V, V), STREAM, "Duplicate value columns found in schema: `V` INTEGER"),
        ((K, Element("K", INTEGER)), STREAM, "Value columns clash with key columns: `K` INTEGER"),
        ((Element("ROWTIME", BIGINT),), STREAM, "'ROWTIME' is a reserved column name"),
        ((Element("WINDOWEND", BIGINT),), STREAM, "is a reserved column name"),
        (
            (Element("K", Map(STRING, INTEGER), ElementRole.KEY), V),
            STREAM,
            "Map keys, including types that contain maps",
        ),
        (
            (Element("V", Struct((Field("A", STRING), Field("A", STRING)))),),
            STREAM,
            "Duplicate field names found in STRUCT",
        ),
        ((Element("V", NamedType("X")),), STREAM, "Cannot resolve unknown type: X"),
        (
            (V, Element("H", BYTES, ElementRole.HEADERS)),
            STREAM,
            "Invalid type for HEADERS column: expected ARRAY<STRUCT<`KEY` STRING",
        ),
        (
            (V, Element("H", STRING, ElementRole.HEADER, "a")),
            STREAM,
            "Invalid type for HEADER('a') column: expected BYTES, got STRING",
        ),
    ],
)
def test_bad_columns(elements: tuple[Element, ...], kind: SourceKind, gist: str) -> None:
    with pytest.raises(EngineError) as caught:
        plan(source(*elements, kind=kind))
    assert gist in caught.value.message


@pytest.mark.parametrize(
    ("keys", "gist"),
    [
        ((None, None), "Schema already contains a HEADERS column."),
        (("a", "a"), "Schema already contains a HEADER('a') column."),
        ((None, "a"), "Schema already contains a HEADERS column."),
        (("a", None), "HEADERS column cannot be added"),
    ],
)
def test_header_columns_exclude_each_other(keys: tuple[str | None, str | None], gist: str) -> None:
    def header(name: str, key: str | None) -> Element:
        sql_type: SqlType = HEADERS_TYPE if key is None else BYTES
        return Element(name, sql_type, ElementRole.HEADERS if key is None else ElementRole.HEADER, key)

    with pytest.raises(StatementError, match="Schema already contains") as caught:
        plan(source(V, header("A", keys[0]), header("B", keys[1])))
    assert gist in caught.value.message


@pytest.mark.parametrize(
    ("more", "gist"),
    [
        ((("TIMESTAMP", "x"),), "does not exist in the schema: 'X'"),
        ((("TIMESTAMP", "v"),), "Timestamp column, `V`, should be LONG(INT64), TIMESTAMP"),
        ((("TIMESTAMP", "k"),), "should be LONG(INT64)"),
        (
            (("TIMESTAMP", "`V`"), ("TIMESTAMP_FORMAT", "yyyy")),
            "can only be used when the timestamp column is of type STRING",
        ),
        (
            (("KEY_FORMAT", "NONE"),),
            "The 'NONE' format can only be used when no columns are defined. Got: [`K` STRING KEY]",
        ),
        ((("VALUE_DELIMITER", "|"),), "JSON does not support the following configs: [delimiter]"),
    ],
)
def test_bad_properties_for_the_schema(more: Properties, gist: str) -> None:
    with pytest.raises(StatementError) as caught:
        plan(source(K, V, more=more))
    assert gist in caught.value.message


@pytest.mark.rules("N11.8")
def test_windowed_sources_need_a_key() -> None:
    with pytest.raises(StatementError, match="Windowed sources require a key column"):
        plan(source(V, more=(("WINDOW_TYPE", "SESSION"),)))


def test_a_format_is_required() -> None:
    statement = CreateSource(STREAM, "S", (V,), (("KAFKA_TOPIC", "t"),))
    with pytest.raises(StatementError, match="missing the 'VALUE_FORMAT' property"):
        plan(statement)
    assert plan(statement, ksql_persistence_default_format_value="json").formats.value_format.format == "JSON"


def test_a_name_that_exists_is_refused() -> None:
    catalog = registered(source(PK, V, kind=TABLE))
    with pytest.raises(StatementError, match="Cannot add stream 'S': A table with the same name already exists"):
        plan(source(V), catalog)
    assert plan_create_source(source(V, if_not_exists=True), catalog, Config(), MemoryRegistry()) is None


def test_replacing_a_source_may_only_append_values() -> None:
    catalog = registered(source(K, V))
    more = plan(source(K, V, Element("W", STRING), or_replace=True), catalog)
    assert len(more.schema.columns) == 3
    with pytest.raises(StatementError) as caught:
        plan(source(K, Element("W", STRING), or_replace=True), catalog)
    assert "(The following columns are changed, missing or reordered: [`V` INTEGER])" in caught.value.message


def test_read_only_sources_cannot_be_replaced() -> None:
    catalog = registered(source(K, V, is_source=True))
    with pytest.raises(StatementError, match="CREATE OR REPLACE is not supported on source streams"):
        plan(source(K, V, or_replace=True), catalog)
    with pytest.raises(StatementError, match="CREATE OR REPLACE is not supported on source streams"):
        plan(source(K, V, or_replace=True, is_source=True))


@pytest.mark.rules("L5.13", "L5.14", "L5.15")
def test_drop() -> None:
    catalog = registered(source(K, V))
    assert plan_drop(DropSource(STREAM, "S"), catalog) == DropSourceV1(source_name="S")
    assert plan_drop(DropSource(STREAM, "X", if_exists=True), catalog) is None
    with pytest.raises(StatementError, match="Stream X does not exist"):
        plan_drop(DropSource(STREAM, "X"), catalog)
    with pytest.raises(StatementError, match="data source type is STREAM, but statement was DROP TABLE"):
        plan_drop(DropSource(TABLE, "S"), catalog)
    with pytest.raises(StatementError, match=r"read from this source: \[A, B\]"):
        plan_drop(DropSource(STREAM, "S"), catalog, SourceUse(sources=("A", "B")))
    with pytest.raises(StatementError, match=r"write into this source: \[Q\]"):
        plan_drop(DropSource(STREAM, "S"), catalog, SourceUse(writers=("Q",)))


def test_topics_of_read_only_sources_cannot_be_deleted() -> None:
    catalog = registered(source(K, V, is_source=True))
    with pytest.raises(StatementError, match="Cannot delete topic for read-only source: S"):
        plan_drop(DropSource(STREAM, "S", delete_topic=True), catalog)


def test_alter_appends_values() -> None:
    catalog = registered(source(K, V))
    command = plan_alter(AlterSource(STREAM, "S", (("W", BIGINT),)), catalog)
    assert command == AlterSourceV1(source_name="S", ksql_type=STREAM, new_columns=(Column("W", BIGINT, Role.VALUE),))
    with pytest.raises(StatementError, match="Cannot add column `V` to schema"):
        plan_alter(AlterSource(STREAM, "S", (("V", BIGINT),)), catalog)
    with pytest.raises(StatementError, match="Source A does not exist"):
        plan_alter(AlterSource(STREAM, "A", (("V", BIGINT),)), catalog)


def test_sources_that_cannot_be_altered() -> None:
    statement = AlterSource(STREAM, "S", (("W", BIGINT),))
    with pytest.raises(StatementError, match="ALTER operations are not supported on source streams"):
        plan_alter(statement, registered(source(K, V, is_source=True)))
    of_query = Catalog().with_source(source_of(plan(source(K, V)), created_by="CSAS_S_0"))
    with pytest.raises(StatementError, match=r"ALTER command is not supported for CREATE \.\.\. AS statements"):
        plan_alter(statement, of_query)


def test_types() -> None:
    catalog = Catalog().with_type("ID", BIGINT)
    assert plan_create_type(CreateType("IDS", Array(NamedType("ID"))), catalog) == RegisterTypeV1(
        type=Array(BIGINT), type_name="IDS"
    )
    assert plan_create_type(CreateType("ID", STRING, if_not_exists=True), catalog) is None
    with pytest.raises(StatementError, match="already registered with type: BIGINT"):
        plan_create_type(CreateType("ID", STRING), catalog)
    assert plan_drop_type(DropType("X", if_exists=True), catalog) is None
    with pytest.raises(StatementError, match="Type X does not exist"):
        plan_drop_type(DropType("X"), catalog)
