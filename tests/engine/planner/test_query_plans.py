"""The steps of queries, and the names of their result columns."""

from __future__ import annotations

import pytest

from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.plan.steps.joins import StreamStreamJoinV1
from kestrel_sql.planner.config import Config
from tests.engine.planner.planning import command, plan, schema, tree

ORDERS = (
    "CREATE STREAM orders (id INT KEY, customer INT, amount DOUBLE, tags ARRAY<STRING>) WITH "
    "(kafka_topic='o', format='JSON');"
)
CUSTOMERS = "CREATE TABLE customers (id INT PRIMARY KEY, name STRING, city INT) WITH (kafka_topic='c', format='JSON');"
CITIES = "CREATE TABLE cities (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='t', format='JSON');"
NESTED = "CREATE STREAM a (k INT KEY, {columns}) WITH (kafka_topic='a', format='JSON');"
CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='k', format='JSON');"


def test_projection_keeps_the_key_out_of_the_value() -> None:
    planned = plan(ORDERS + "CREATE STREAM s AS SELECT amount * 2, id AS k, amount FROM orders WHERE amount > 0;")
    assert tree(planned) == [
        "streamSinkV1[S]",
        (
            "  streamSelectV1[Project] key_column_names=(K) select_expressions=((AMOUNT * 2) AS "
            "KSQL_COL_0, AMOUNT AS AMOUNT)"
        ),
        "    streamFilterV1[WhereFilter] filter_expression=(AMOUNT > 0)",
        "      streamSourceV1[KsqlTopic/Source]",
    ]
    assert schema(planned) == "`K` INTEGER KEY, `KSQL_COL_0` DOUBLE, `AMOUNT` DOUBLE"


def test_partition_by_an_expression_appends_it_to_the_row() -> None:
    planned = plan(ORDERS + "CREATE STREAM s AS SELECT * FROM orders PARTITION BY customer + 1;")
    assert tree(planned)[1:3] == [
        (
            "  streamSelectV1[Project] key_column_names=(KSQL_COL_0)"
            " select_expressions=(CUSTOMER AS CUSTOMER, AMOUNT AS AMOUNT, TAGS AS TAGS, ID AS ID)"
        ),
        "    streamSelectKeyV2[PartitionBy] key_expression=((CUSTOMER + 1))",
    ]


@pytest.mark.rules("N7.2.8")
def test_partition_by_the_key_changes_nothing() -> None:
    planned = plan(ORDERS + "CREATE STREAM s AS SELECT * FROM orders PARTITION BY id;")
    assert not any("streamSelectKey" in line for line in tree(planned))


def test_partition_by_null_drops_the_key() -> None:
    planned = plan(ORDERS + "CREATE STREAM s AS SELECT id, amount FROM orders PARTITION BY NULL;")
    assert schema(planned) == "`ID` INTEGER, `AMOUNT` DOUBLE"
    assert command(planned).formats.key_format == FormatInfo("NONE")


@pytest.mark.rules("N6.5")
def test_aggregates_number_arguments_and_results() -> None:
    planned = plan(
        ORDERS
        + "CREATE TABLE t AS SELECT customer, COUNT(*) AS n, SUM(amount + 1) FROM orders GROUP BY "
        + "customer HAVING COUNT(*) > 1;"
    )
    assert tree(planned) == [
        "tableSinkV1[T]",
        (
            "  tableSelectV1[Aggregate/Project] key_column_names=(CUSTOMER)"
            " select_expressions=(KSQL_AGG_VARIABLE_0 AS N, KSQL_AGG_VARIABLE_1 AS KSQL_COL_0)"
        ),
        "    tableFilterV1[Aggregate/HavingFilter] filter_expression=(KSQL_AGG_VARIABLE_2 > 1)",
        (
            "      streamAggregateV1[Aggregate/Aggregate] non_aggregate_columns=(CUSTOMER, ROWTIME, AMOUNT)"
            " aggregation_functions=(COUNT(ROWTIME), SUM(KSQL_INTERNAL_COL_3), COUNT(ROWTIME))"
        ),
        "        streamGroupByV2[Aggregate/GroupBy] group_by_expressions=(CUSTOMER)",
        (
            "          streamSelectV1[Aggregate/Prepare] key_column_names=(ID) "
            "select_expressions=(CUSTOMER AS CUSTOMER,"
            " ROWTIME AS ROWTIME, AMOUNT AS AMOUNT, (AMOUNT + 1) AS KSQL_INTERNAL_COL_3)"
        ),
        "            streamSourceV1[KsqlTopic/Source]",
    ]


def test_arguments_that_differ_in_the_digits_of_a_number_are_two_aggregates() -> None:
    source = "CREATE STREAM s (k INT KEY, x DECIMAL(10, 2)) WITH (kafka_topic='s', format='JSON');"
    planned = plan(source + "CREATE TABLE o AS SELECT k, SUM(x * 1.0) AS a, SUM(x * 1.00) AS b FROM s GROUP BY k;")
    assert schema(planned) == "`K` INTEGER KEY, `A` DECIMAL(13, 3), `B` DECIMAL(14, 4)"


def test_grouping_by_the_only_key_column_does_not_rekey() -> None:
    lines = tree(plan(ORDERS + "CREATE TABLE t AS SELECT id, COUNT(*) FROM orders GROUP BY id;"))
    assert any("streamGroupByKeyV1" in line for line in lines)


def test_window_bounds_without_alias_stay_in_the_key() -> None:
    planned = plan(
        ORDERS + "CREATE TABLE t AS SELECT id, WINDOWSTART, WINDOWEND AS e, COUNT(*) AS n FROM orders"
        " WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id EMIT FINAL;"
    )
    assert schema(planned) == "`ID` INTEGER KEY, `E` BIGINT, `N` BIGINT"
    lines = tree(planned)
    assert "emit=<Emit.FINAL" in lines[2]
    assert "grace=TimeSpan(value=0, unit='MILLISECONDS')" in lines[2]


def test_bounds_of_a_windowed_source_are_columns_of_an_aggregate_without_window() -> None:
    windowed = "CREATE STREAM w (k INT KEY, a INT) WITH (kafka_topic='w', format='JSON', window_type='SESSION');"
    planned = plan(
        windowed + "CREATE TABLE t AS SELECT a, WINDOWSTART AS s, COUNT(*) AS n FROM w GROUP BY a, WINDOWSTART;"
    )
    assert schema(planned) == "`A` INTEGER KEY, `S` BIGINT KEY, `N` BIGINT"
    assert "non_aggregate_columns=(A, WINDOWSTART, ROWTIME)" in tree(planned)[2]


@pytest.mark.rules("N6.5")
def test_table_functions_become_columns() -> None:
    lines = tree(plan(ORDERS + "CREATE STREAM s AS SELECT id, EXPLODE(tags) + '!' AS t FROM orders;"))
    assert lines[1:3] == [
        "  streamSelectV1[Project] key_column_names=(ID) select_expressions=((KSQL_SYNTH_0 + '!') AS T)",
        "    streamFlatMapV1[FlatMap] table_functions=(EXPLODE(TAGS))",
    ]


def test_stream_table_join_rekeys_the_stream() -> None:
    planned = plan(
        ORDERS
        + CUSTOMERS
        + "CREATE STREAM s AS SELECT c.id, name, amount, o.ROWTIME FROM orders o JOIN customers c ON customer = c.id;"
    )
    lines = tree(planned)
    assert lines[1] == (
        "  streamSelectV1[Project] key_column_names=(C_ID) select_expressions=(C_NAME AS NAME, "
        "O_AMOUNT AS AMOUNT, O_ROWTIME AS O_ROWTIME)"
    )
    assert lines[2] == "    streamTableJoinV1[Join] join_type=INNER key_name=C_ID"
    assert lines[4] == "        streamSelectKeyV2[LeftSourceKeyed] key_expression=(CUSTOMER)"
    assert schema(planned) == "`C_ID` INTEGER KEY, `NAME` STRING, `AMOUNT` DOUBLE, `O_ROWTIME` BIGINT"


def test_full_join_has_a_synthetic_key() -> None:
    planned = plan(
        ORDERS
        + CLICKS
        + "CREATE STREAM s AS SELECT ROWKEY AS k, page FROM orders o FULL JOIN clicks c WITHIN 1 "
        + "HOUR GRACE PERIOD 0 DAYS ON o.id = c.id;"
    )
    assert "key_name=ROWKEY before_ms=3600000 after_ms=3600000 grace_ms=0" in tree(planned)[2]
    assert schema(planned) == "`K` INTEGER KEY, `PAGE` STRING"


@pytest.mark.rules("L9.17")
def test_foreign_key_join_keeps_the_left_key_and_may_be_joined_again() -> None:
    script = ORDERS + CUSTOMERS + CITIES
    planned = plan(
        script + "CREATE TABLE t AS SELECT c.id, t.name AS town FROM customers c JOIN cities t ON city = t.id;"
    )
    assert tree(planned)[2] == "    fkTableTableJoinV1[Join] join_type=INNER left_join_expression=C_CITY"
    assert schema(planned) == "`C_ID` INTEGER KEY, `TOWN` STRING"


def test_both_sides_of_a_join_use_the_key_format_of_the_side_that_is_not_rekeyed() -> None:
    binary = (
        "CREATE STREAM views (id INT KEY, page STRING) WITH (kafka_topic='v', key_format='KAFKA', value_format='JSON');"
    )
    planned = plan(
        ORDERS
        + binary
        + "CREATE STREAM s AS SELECT v.id, amount, v.page FROM orders o JOIN views v WITHIN 1 HOUR ON customer = v.id;"
    )
    assert planned.query_plan is not None
    join = planned.query_plan.physical_plan.upstream[0].upstream[0]
    assert isinstance(join, StreamStreamJoinV1)
    assert join.left_internal_formats.key_format == join.right_internal_formats.key_format == FormatInfo("KAFKA")


def test_later_joins_rekey_only_by_other_columns() -> None:
    same = (
        ORDERS
        + CUSTOMERS
        + CITIES
        + "CREATE STREAM s AS SELECT c.id, amount FROM orders o JOIN customers c ON o.id = c.id "
        + "JOIN cities t ON o.id = t.id;"
    )
    other = same.replace("o.id = t.id", "o.customer = t.id").replace("SELECT c.id", "SELECT t.id")
    assert not any("[LeftSourceKeyed]" in line for line in tree(plan(same)))
    assert any("streamSelectKeyV2[LeftSourceKeyed] key_expression=(O_CUSTOMER)" in line for line in tree(plan(other)))


@pytest.mark.rules("N5.3")
def test_star_of_a_join_is_prefixed_and_starts_with_keys() -> None:
    planned = plan(CUSTOMERS + CITIES + "CREATE TABLE t AS SELECT * FROM customers c JOIN cities t ON c.id = t.id;")
    assert schema(planned) == "`C_ID` INTEGER KEY, `C_NAME` STRING, `C_CITY` INTEGER, `T_ID` INTEGER, `T_NAME` STRING"


def test_struct_star_is_named_after_the_fields() -> None:
    planned = plan(f"{NESTED.format(columns='s STRUCT<x INT, y INT>')} CREATE STREAM b AS SELECT k, s->* FROM a;")
    assert schema(planned) == "`K` INTEGER KEY, `X` INTEGER, `Y` INTEGER"


def test_struct_fields_without_alias_do_not_clash() -> None:
    planned = plan(f"{NESTED.format(columns='x INT, s STRUCT<x INT>')} CREATE STREAM b AS SELECT k, s->x, x FROM a;")
    assert schema(planned) == "`K` INTEGER KEY, `X_1` INTEGER, `X` INTEGER"


def test_timestamp_text_in_where_becomes_millis() -> None:
    lines = tree(
        plan(
            ORDERS
            + "CREATE STREAM s AS SELECT * FROM orders WHERE ROWTIME BETWEEN '2024-01' AND '2024-01-02T00:00:01+0100';"
        )
    )
    assert "(ROWTIME BETWEEN 1704067200000 AND 1704150001000)" in lines[2]


@pytest.mark.rules("N9.6")
def test_insert_into_fits_literals_to_decimal_columns() -> None:
    planned = plan(
        ORDERS + "CREATE STREAM d (id INT KEY, price DECIMAL(5, 2)) WITH (kafka_topic='d', format='JSON');"
        "INSERT INTO d SELECT id, 7 AS price FROM orders;"
    )
    assert "7.00 AS PRICE" in tree(planned)[1]
    assert planned.ddl_command is None


def test_push_queries_have_no_sink_and_show_the_key() -> None:
    assert tree(plan(ORDERS + "SELECT id, amount FROM orders EMIT CHANGES;"))[0] == (
        "streamSelectV1[Project] key_column_names=(ID) select_expressions=(ID AS ID, AMOUNT AS AMOUNT)"
    )
    assert tree(plan(ORDERS + "SELECT amount FROM orders EMIT CHANGES;"))[0].endswith(
        "select_expressions=(AMOUNT AS AMOUNT)"
    )


@pytest.mark.rules("L8.5")
@pytest.mark.parametrize(("items", "wanted"), [("*", "`ID` INTEGER KEY, `PAGE` STRING"), ("page", "`PAGE` STRING")])
def test_the_experimental_planner_may_drop_the_key(items: str, wanted: str) -> None:
    config = Config.of({"ksql.new.query.planner.enabled": True})
    planned = plan(CLICKS + f"CREATE STREAM s AS SELECT {items} FROM clicks;", config)
    assert tree(planned)[1].startswith("  streamSelectV1[SELECT]")
    assert schema(planned) == wanted
