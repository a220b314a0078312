"""Internal topics: the names for small queries, and the names and formats of all that ksqlDB recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.drivers.functions import functions_from
from kestrel_qtt.ksqldb.internal_topics import InternalTopic, internal_topics
from kestrel_qtt.load import CORPUS_FUNCTIONS
from kestrel_qtt.plans.store import find_plans, newest_plans
from kestrel_sql.errors import EngineError
from kestrel_sql.formats.registered.columns import schema_text
from kestrel_sql.plan.codec.plan_file import load_plan
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.plan.step import FormatInfo, Formats, SerdeFeature, WindowInfo
from kestrel_sql.plan.steps.sources import TableSourceV1
from kestrel_sql.session.session import Session
from kestrel_sql.types.schema import Column, Role, Schema
from kestrel_sql.types.sql_types import STRING

CORPUS = Path(__file__).parents[4] / "shared" / "ksqldb" / "historic-plans"
SOURCES = """
CREATE STREAM S (ID INT KEY, A INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');
CREATE STREAM R (ID INT KEY, B INT) WITH (KAFKA_TOPIC='r', FORMAT='JSON');
CREATE TABLE T (ID INT PRIMARY KEY, C INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON');
CREATE TABLE U (ID INT PRIMARY KEY, D INT) WITH (KAFKA_TOPIC='u', FORMAT='JSON');
"""


def names(statement: str) -> list[str]:
    session = Session()
    for parsed in session.parse(f"{SOURCES}{statement}"):
        session.execute(parsed)
    (query,) = session.queries.values()
    topics = internal_topics(query.plan, "me_", session.functions)
    return sorted(topic.name.removeprefix(f"_confluent-ksql-me_query_{query.id}-") for topic in topics)


def test_a_topology_that_is_not_optimized_copies_the_topic_of_an_old_table() -> None:
    schema = Schema((Column("ID", STRING, Role.KEY), Column("A", STRING)))
    formats = Formats(key_format=FormatInfo("KAFKA"), value_format=FormatInfo("JSON"))
    source = TableSourceV1(query_context="KsqlTopic/Source", topic_name="t", formats=formats, source_schema=schema)
    plan = QueryPlan(sources=("T",), sink="O", physical_plan=source, query_id="Q")
    functions = functions_from(CORPUS_FUNCTIONS)
    assert internal_topics(plan, "me_", functions) == ()
    (topic,) = internal_topics(plan, "me_", functions, optimized=False)
    assert (topic.name, (*topic.key, *topic.value)) == (
        "_confluent-ksql-me_query_Q-KsqlTopic-Reduce-changelog",
        schema.columns,
    )


@pytest.mark.rules("Q10.2")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("CREATE STREAM O AS SELECT * FROM S WHERE A > 1;", []),
        ("CREATE STREAM O AS SELECT * FROM S PARTITION BY A;", []),
        ("CREATE TABLE O AS SELECT * FROM T;", ["KsqlTopic-Reduce-changelog"]),
        ("CREATE TABLE O AS SELECT ID, COUNT(*) FROM S GROUP BY ID;", ["Aggregate-Aggregate-Materialize-changelog"]),
        (
            "CREATE TABLE O AS SELECT A, COUNT(*) FROM S GROUP BY A;",
            ["Aggregate-Aggregate-Materialize-changelog", "Aggregate-GroupBy-repartition"],
        ),
        (
            "CREATE STREAM O AS SELECT S.ID, A, B FROM S JOIN R WITHIN 1 DAY ON S.ID = R.ID;",
            ["KSTREAM-JOINOTHER-0000000009-store-changelog", "KSTREAM-JOINTHIS-0000000008-store-changelog"],
        ),
        (
            "CREATE STREAM O AS SELECT S.ID, A, B FROM S LEFT JOIN R WITHIN 1 DAY GRACE PERIOD 1 DAY ON S.ID = R.B;",
            [
                "Join-right-repartition",
                "KSTREAM-JOINTHIS-0000000012-store-changelog",
                "KSTREAM-OUTEROTHER-0000000013-store-changelog",
                "KSTREAM-OUTERSHARED-0000000012-store-changelog",
            ],
        ),
        (
            "CREATE STREAM O AS SELECT T.ID, A, C FROM S JOIN T ON S.A = T.ID;",
            ["Join-repartition", "KafkaTopic_Right-Reduce-changelog"],
        ),
        (
            "CREATE TABLE O AS SELECT T.ID, C, D FROM T JOIN U ON T.ID = U.ID;",
            ["KafkaTopic_Left-Reduce-changelog", "KafkaTopic_Right-Reduce-changelog", "Project-Last-changelog"],
        ),
    ],
)
def test_names_of_internal_topics(statement: str, expected: list[str]) -> None:
    assert names(statement) == expected


@pytest.mark.conformance
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"{CORPUS} is not there")
def test_every_internal_topic_that_ksqldb_recorded() -> None:
    compared, different = 0, []
    for stored in newest_plans(find_plans(CORPUS)).values():
        spec = json.loads(stored.spec_file.read_text(encoding="utf-8"))["testCase"]
        recorded = spec.get("post", {}).get("topics", {}).get("topics", [])
        expected = {topic["name"]: topic for topic in recorded if topic["name"].startswith("_confluent-ksql")}
        topics = {topic.name: topic for topic in _topics_of(stored.plan_file)} if expected else {}
        for name, topic in expected.items():
            compared += 1
            if name not in topics or not _agrees(topic, topics[name]):
                different.append(f"{stored.home.name}: {name}")
    assert different == []
    assert compared > 1000


def _topics_of(file: Path) -> list[InternalTopic]:
    plans = (statement.query_plan for statement in load_plan(file.read_text(encoding="utf-8")).statements)
    return [
        topic
        for plan in plans
        if plan is not None
        for topic in internal_topics(plan, "some.ksql.service.id", functions_from(CORPUS_FUNCTIONS))
    ]


def _agrees(expected: dict[str, Any], topic: InternalTopic) -> bool:
    formats = topic.formats
    sides = (
        ("key", formats.key_format, formats.key_features, topic.window, topic.key),
        ("value", formats.value_format, formats.value_features, None, topic.value),
    )
    return all(
        _normal(expected[f"{side}Format"]) == _normal(_written(info, features, window))
        and (f"{side}Schema" not in expected or expected[f"{side}Schema"] == _schema(info, features, columns))
        for side, info, features, window, columns in sides
    )


def _normal(info: dict[str, Any]) -> tuple[Any, ...]:
    window = info.get("windowInfo", {})
    return (
        info["format"],
        info.get("properties", {}),
        sorted(info.get("features", ())),
        window.get("type"),
        window.get("size"),
    )


def _written(info: FormatInfo, features: frozenset[SerdeFeature], window: WindowInfo | None) -> dict[str, Any]:
    written: dict[str, Any] = {
        "format": info.format,
        "properties": dict(info.properties),
        "features": [f.value for f in features],
    }
    if window is not None:
        size = None if window.size_ms is None else window.size_ms / 1000
        written["windowInfo"] = {"type": window.type.value, "size": size}
    return written


def _schema(info: FormatInfo, features: frozenset[SerdeFeature], columns: tuple[Column, ...]) -> Any:
    try:
        text = schema_text(columns, info, unwrapped=len(columns) == 1 and SerdeFeature.UNWRAP_SINGLES in features)
    except EngineError as error:
        return str(error)
    return text if info.format == "PROTOBUF" else json.loads(text)
