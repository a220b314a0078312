"""INSERT VALUES and the schema check of INSERT INTO … SELECT."""

from __future__ import annotations

import decimal
from typing import Any

import pytest

from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.errors import StatementError, TypeMismatchError
from kestrel_sql.plan.step import FormatInfo, Formats, WindowInfo, WindowType
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.expressions.insert_coercion import coerce_value
from kestrel_sql.planner.inserts import ResolvedInsert, check_insert, plan_insert_values
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, IntegerLiteral, StringLiteral
from kestrel_sql.sql.nodes.statements import InsertValues, SourceKind
from kestrel_sql.types.schema import Column, Role, Schema
from kestrel_sql.types.sql_types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    HEADERS_TYPE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)

K, V = Column("K", STRING, Role.KEY), Column("V", BIGINT)
H = Column("H", HEADERS_TYPE, Role.HEADERS)
ONE, A = IntegerLiteral(1), StringLiteral("a")


def source(*columns: Column, kind: SourceKind = SourceKind.STREAM, **more: Any) -> Source:
    return Source(
        name="S",
        kind=kind,
        schema=Schema(columns or (K, V)),
        topic="s",
        formats=Formats(FormatInfo("KAFKA"), FormatInfo("JSON")),
        **more,
    )


def plan(target: Source, columns: tuple[str, ...], *values: Expression) -> ResolvedInsert:
    return plan_insert_values(InsertValues("S", columns, values), Catalog().with_source(target), Config())


def test_columns_stand_in_the_order_of_the_statement_or_the_schema() -> None:
    assert plan(source(), (), A, ONE).values == ((K, A), (V, ONE))
    assert plan(source(), ("V", "K"), ONE, A).values == ((V, ONE), (K, A))
    assert plan(source(), ("V",), ONE).values == ((V, ONE),)


def test_the_timestamp_is_not_a_column() -> None:
    resolved = plan(source(), ("ROWTIME", "K"), ONE, A)
    assert (resolved.timestamp, resolved.values) == (ONE, ((K, A),))


@pytest.mark.parametrize(
    ("target", "columns", "values", "gist"),
    [
        (source(), ("V", "ROWOFFSET"), (ONE, ONE), "Inserting into column `ROWOFFSET` is not allowed."),
        (source(), ("X",), (ONE,), "Column name `X` does not exist."),
        (source(), ("V", "V"), (ONE, ONE), "listed more than once"),
        (source(), (), (A,), "Expected a value for each column. Expected Columns: [`K`, `V`]"),
        (source(K, H, V), (), (A, ONE, ONE), "Cannot insert into HEADER columns: H"),
        (source(is_source=True), (), (A, ONE), "Cannot insert values into read-only stream: S"),
        (source(kind=SourceKind.TABLE), ("V",), (ONE,), "Value for primary key column(s) `K` is required for tables"),
        (source(), (), (A, ColumnRef("K")), "Column `K` cannot be resolved"),
        (source(), (), (A, ColumnRef("BAR", "FOO")), "'FOO' is not a valid stream/table name or alias."),
    ],
)
def test_refused_values(target: Source, columns: tuple[str, ...], values: tuple[Expression, ...], gist: str) -> None:
    with pytest.raises(StatementError) as caught:
        plan(target, columns, *values)
    assert gist in caught.value.message


def test_unknown_and_windowed_targets() -> None:
    with pytest.raises(StatementError, match="unknown stream/table: `s`\nDid you mean S"):
        plan_insert_values(InsertValues("s", (), (A,)), Catalog().with_source(source()), Config())
    windowed = Source(
        name="S",
        kind=SourceKind.STREAM,
        schema=Schema((K, V)),
        topic="s",
        formats=Formats(FormatInfo("KAFKA"), FormatInfo("JSON")),
        window=WindowInfo(WindowType.SESSION),
    )
    with pytest.raises(StatementError, match="windowed"):
        plan(windowed, (), A, ONE)


DEC = Decimal(4, 2)


@pytest.mark.rules("N9.7")
@pytest.mark.parametrize(
    ("value", "source_type", "wanted", "expected"),
    [
        (1, INTEGER, BIGINT, 1),
        (1, INTEGER, DOUBLE, 1.0),
        (1, INTEGER, DEC, decimal.Decimal("1.00")),
        (decimal.Decimal("0.50"), Decimal(3, 2), DEC, decimal.Decimal("0.50")),
        (decimal.Decimal("1.5"), Decimal(2, 1), DOUBLE, 1.5),
        (None, None, Array(STRING), None),
        ("aGk=", STRING, BYTES, b"hi"),
        ("1970-01-02", STRING, DATE, 1),
        ("00:00:01.5", STRING, TIME, 1500),
        ("1970-01-01T00:00:01", STRING, TIMESTAMP, 1000),
        ([1, None], Array(INTEGER), Array(DOUBLE), [1.0, None]),
        ({"a": 1}, Map(STRING, INTEGER), Map(STRING, BIGINT), {"a": 1}),
        (
            {"A": 1},
            Struct((Field("A", INTEGER),)),
            Struct((Field("B", STRING), Field("A", DOUBLE))),
            {"B": None, "A": 1.0},
        ),
        ({}, Struct(()), Struct((Field("A", DEC),)), {"A": None}),
    ],
)
def test_values_that_fit(value: object, source_type: SqlType | None, wanted: SqlType, expected: object) -> None:
    coerced = coerce_value(value, source_type, Column("V", wanted))
    assert (coerced, type(coerced)) == (expected, type(expected))


@pytest.mark.rules("N9.7")
@pytest.mark.parametrize(
    ("value", "source_type", "wanted"),
    [
        ("1", STRING, INTEGER),
        (1, BIGINT, INTEGER),
        (1, INTEGER, STRING),
        (decimal.Decimal("1.234"), Decimal(4, 3), DEC),
        (100, INTEGER, DEC),
        (1.5, DOUBLE, DEC),
        ("no base64!", STRING, BYTES),
        ("1970-01-02T01", STRING, DATE),
    ],
)
def test_values_that_do_not_fit(value: object, source_type: SqlType, wanted: SqlType) -> None:
    with pytest.raises(TypeMismatchError, match="Expected type"):
        coerce_value(value, source_type, Column("V", wanted))


def test_the_result_of_a_select_must_match_the_target() -> None:
    check_insert(Schema((K, Column("V", INTEGER))), source())
    for columns in ((K,), (K, Column("W", BIGINT)), (K, Column("V", DOUBLE)), (Column("K", STRING), V)):
        with pytest.raises(StatementError) as caught:
            check_insert(Schema(columns), source())
        assert caught.value.message.startswith("Incompatible schema between results and sink.\nResult schema is ")


@pytest.mark.parametrize(
    ("target", "gist"),
    [
        (source(kind=SourceKind.TABLE), "INSERT INTO can only be used to insert into a stream. S is a table."),
        (source(is_source=True), "Cannot insert into read-only stream: S"),
        (source(K, V, H), "Cannot insert into S because it has header columns"),
    ],
)
def test_targets_that_a_select_cannot_write(target: Source, gist: str) -> None:
    with pytest.raises(StatementError) as caught:
        check_insert(Schema((K, V)), target)
    assert gist in caught.value.message
