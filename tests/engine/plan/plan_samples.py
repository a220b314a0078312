"""Sample plans as JSON documents; together they use every step and every command."""

from __future__ import annotations

import re
from inspect import get_annotations
from typing import Any

from msgspec.structs import fields

from kestrel_sql.plan.codec.objects import json_name
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.table import STEPS

Document = dict[str, Any]


def formats(key: str = "KAFKA", value: str = "JSON", **more: Any) -> Document:
    return {"keyFormat": {"format": key, "properties": {}}, "valueFormat": {"format": value, "properties": {}}, **more}


def step(tag: str, context: str, **fields: Any) -> Document:
    return {"@type": tag, "properties": {"queryContext": context}, **fields}


def stream(topic: str = "herd", **more: Any) -> Document:
    return step(
        "streamSourceV1",
        "KsqlTopic/Source",
        topicName=topic,
        formats=formats(),
        timestampColumn=None,
        sourceSchema="`TAG` STRING KEY, `KILO` DOUBLE, `FED` BIGINT",
        pseudoColumnVersion=1,
        **more,
    )


def table(topic: str = "barn") -> Document:
    return step(
        "tableSourceV2",
        "KafkaTopic_Right/Source",
        topicName=topic,
        formats=formats(),
        timestampColumn={"column": "SEEN", "format": "yyyy-MM-dd"},
        sourceSchema="`TAG` STRING KEY, `SEEN` STRING, `H` ARRAY<STRUCT<`KEY` STRING, `VALUE` BYTES>> HEADERS",
        pseudoColumnVersion=1,
        stateStoreFormats=formats(),
    )


def select(source: Document, *items: str, **more: Any) -> Document:
    return step(
        "streamSelectV1",
        "Project",
        source=source,
        keyColumnNames=["TAG"],
        selectedKeys=None,
        selectExpressions=list(items),
        **more,
    )


def table_select(source: Document, *items: str) -> Document:
    return step(
        "tableSelectV1",
        "Project",
        source=source,
        keyColumnNames=["TAG"],
        selectExpressions=list(items),
        internalFormats=formats(),
    )


def sink(source: Document, kind: str = "stream") -> Document:
    return step(f"{kind}SinkV1", "OUT", source=source, formats=formats(), topicName="OUT", timestampColumn=None)


def query(root: Document) -> Document:
    return {
        "@type": "ksqlPlanV1",
        "statementText": "INSERT INTO OUT SELECT ...",
        "ddlCommand": None,
        "queryPlan": {
            "sources": ["HERD"],
            "sink": "OUT",
            "physicalPlan": root,
            "queryId": "INSERTQUERY_1",
            "runtimeId": None,
        },
    }


def ddl(command: Document) -> Document:
    return {"@type": "ksqlPlanV1", "statementText": "...", "ddlCommand": command, "queryPlan": None}


def create(kind: str = "Stream", **more: Any) -> Document:
    return {
        "@type": f"create{kind}V1",
        "sourceName": "HERD",
        "schema": "`TAG` STRING KEY, `KILO` DOUBLE",
        "timestampColumn": None,
        "topicName": "herd",
        "formats": formats(),
        "windowInfo": None,
        "orReplace": False,
        "isSource": False,
        **more,
    }


def window(kind: str, **lengths: Any) -> Document:
    return {"windowType": kind, **lengths, "retention": None, "gracePeriod": None, "emitStrategy": None}


def span(value: int, unit: str = "SECONDS") -> Document:
    return {"value": value, "timeUnit": unit}


def windowed(expression: Any) -> Document:
    grouped = step(
        "streamGroupByKeyV1", "Aggregate/GroupBy", source=select(stream(), "TAG AS TAG"), internalFormats=formats()
    )
    return step(
        "streamWindowedAggregateV1",
        "Aggregate/Aggregate",
        source=grouped,
        internalFormats=formats(),
        nonAggregateColumns=["TAG"],
        aggregationFunctions=["COUNT(TAG)"],
        windowExpression=expression,
    )


def grouped(tag: str, source: Document) -> Document:
    return step(
        tag, "Aggregate/GroupBy", source=source, internalFormats=formats(), groupByExpressions=["TAG", "(FED + 1)"]
    )


def joined(tag: str, left: Document, right: Document, **more: Any) -> Document:
    return {**step(tag, "Join", joinType="LEFT", keyColName="TAG", leftSource=left, rightSource=right), **more}


def stream_join(**more: Any) -> Document:
    lengths = {"beforeMillis": 11, "afterMillis": 0, "graceMillis": None, **more}
    return joined(
        "streamStreamJoinV1",
        stream("a"),
        stream("b"),
        leftInternalFormats=formats(),
        rightInternalFormats=formats(),
        **lengths,
    )


def ingestion(**more: Any) -> Document:
    return {
        "envelope": "UPSERT",
        "formats": formats("TEXT", "JSON_DOCUMENT"),
        "messageSchema": "`KEY` STRING KEY, `DATA` STRING",
        "keyRecord": False,
        "inlineErrors": True,
        "metadata": [{"item": "OFFSET", "headerKey": None}, {"item": "HEADER_TEXT", "headerKey": "trace"}],
        "startOffsets": [0, 2**40],
        **more,
    }


KAFKA_SCHEMA = "`KEY` STRING KEY, `DATA` STRING, `ERROR` STRUCT<`DESCRIPTION` STRING>, `OFFSET` BIGINT, `TRACE` STRING"


NARROW: dict[str, Document] = {
    "tableSourceV1": {"pseudoColumnVersion": 0},
    "tableSuppressV1": {"refinementInfo": {"outputRefinement": "FINAL"}},
    "fkTableTableJoinV1": {"leftJoinExpression": None},
}
"""Values of fields that take fewer than their type allows."""


def of_fields(cls: type[Step]) -> Document:
    """A step with a sample for each of its fields, chosen by its type."""
    samples = {
        "Step": table() if "Table" in cls.__name__ else stream(),
        "Schema": KAFKA_SCHEMA,
        "Formats": formats(),
        "IngestionSpec": ingestion(),
        "WindowInfo": {"type": "TUMBLING", "size": 5, "emitStrategy": "CHANGES"},
        "WindowExpression": window("TUMBLING", size=span(1, "MINUTES")),
        "TimestampColumn": {"column": "SEEN", "format": "yyyy-MM-dd"},
        "Expression": "((FED > 1) AND (TAG IS NOT NULL))",
        "JoinType": "LEFT",
        "tuple[Expression, ...]": ["TAG", "(FED + 1)"],
        "tuple[FunctionCall, ...]": ["EXPLODE(ARRAY[1, 2])"],
        "tuple[SelectItem, ...]": ["TAG AS TAG", "(KILO + 1) AS `heavy er`"],
        "tuple[str, ...]": ["TAG", "KILO"],
        "str": "TAG",
        "int": 1,
        "bool": True,
    }
    written = {name: text for base in cls.__mro__ for name, text in get_annotations(base).items()}
    bare = {name: re.sub(r"Annotated\[(.*), Shown\(.*", r"\1", text) for name, text in written.items()}
    given = {json_name(each): samples[bare[each.name].removesuffix(" | None")] for each in fields(cls)}
    del given["queryContext"]
    return step(cls.tag, "Sample", **given | NARROW.get(cls.tag, {}))


def roots() -> list[Document]:
    """Physical plans that together hold every published step, and the other forms of some fields."""
    fk = {"joinType": "INNER", "formats": formats(), "leftSource": table("l"), "rightSource": table("r")}
    return [
        *map(of_fields, STEPS.values()),
        sink(select(stream(), "TAG AS TAG")),
        sink(table_select(table(), "TAG AS TAG"), "table"),
        windowed(window("HOPPING", size=span(30), advanceBy=span(10))),
        windowed({**window("SESSION", gap=span(5)), "gracePeriod": span(2, "HOURS"), "emitStrategy": "FINAL"}),
        stream_join(),
        step("fkTableTableJoinV1", "Join", **fk, leftJoinColumnName=None, leftJoinExpression="ABS(FED)"),
    ]


def commands() -> list[Document]:
    """One of every command, in the newest form."""
    featured = formats(key="JSON", value="AVRO", keyFeatures=["UNWRAP_SINGLES"], valueFeatures=["WRAP_SINGLES"])
    featured["valueFormat"]["properties"] = {"fullSchemaName": "Cow"}
    return [
        create(),
        create(formats=featured, orReplace=True, isSource=True, timestampColumn={"column": "KILO", "format": None}),
        create("Table", windowInfo={"type": "SESSION", "size": None, "emitStrategy": "FINAL"}),
        {
            "@type": "createKafkaSourceV1",
            "sourceName": "HERD",
            "schema": KAFKA_SCHEMA,
            "topicName": "herd",
            "formats": formats(),
            "intake": ingestion(),
        },
        {"@type": "registerTypeV1", "type": "STRUCT<`A` INTEGER>", "typeName": "COW"},
        {"@type": "dropTypeV1", "typeName": "COW"},
        {"@type": "dropSourceV1", "sourceName": "HERD"},
        {
            "@type": "alterSourceV1",
            "sourceName": "HERD",
            "ksqlType": "STREAM",
            "newColumns": ["`AGE` INTEGER", "`SIRE` STRING"],
        },
    ]


def plan() -> Document:
    """A plan file with every command, every step and some configs."""
    return {
        "plan": [*map(ddl, commands()), *map(query, roots())],
        "configs": {"ksql.nested.error.set.null": "true", "state.dir": None},
    }
