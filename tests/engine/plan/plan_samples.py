"""Sample plans as JSON documents; together they use every step and every command."""

from __future__ import annotations

from typing import Any

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


def aggregate(tag: str, source: Document) -> Document:
    return step(
        tag,
        "Aggregate/Aggregate",
        source=source,
        internalFormats=formats(),
        nonAggregateColumns=["TAG", "KILO"],
        aggregationFunctions=["SUM(KILO)", "COUNT(FED)"],
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


def kafka(kind: str) -> Document:
    return step(
        f"kafka{kind}SourceV1",
        "KsqlTopic/Source",
        topicName="herd",
        formats=formats(),
        intake=ingestion(),
        sourceSchema=KAFKA_SCHEMA,
        pseudoColumnVersion=1,
    )


def roots() -> list[Document]:
    """Physical plans that together hold every published step."""
    old_table = step(
        "tableSourceV1",
        "KsqlTopic/Source",
        topicName="barn",
        formats=formats(),
        timestampColumn=None,
        sourceSchema="`ROWKEY` STRING KEY, `KILO` DOUBLE",
        forceChangelog=True,
        pseudoColumnVersion=0,
    )
    info = {"type": "TUMBLING", "size": 5, "emitStrategy": "CHANGES"}
    windowed_sources = [
        step(
            f"windowed{kind}SourceV1",
            "KsqlTopic/Source",
            topicName="w",
            formats=formats(),
            windowInfo=info,
            timestampColumn=None,
            sourceSchema="`TAG` STRING KEY, `N` BIGINT",
            pseudoColumnVersion=1,
        )
        for kind in ("Stream", "Table")
    ]
    rekeyed = [
        step("streamSelectKeyV1", "PartitionBy", source=stream(), keyExpression="KILO"),
        step("streamSelectKeyV2", "PartitionBy", source=stream(), keyExpression=["KILO", "(FED + 1)"]),
    ]
    table_key = step(
        "tableSelectKeyV1", "PartitionBy", source=table(), internalFormats=formats(), keyExpression=["SEEN"]
    )
    table_filter = step("tableFilterV1", "WhereFilter", source=table(), filterExpression="(TAG = 'x')")
    tables = [kafka("Table"), old_table, windowed_sources[1], table_key, table_filter]
    aggregates = [
        aggregate("streamAggregateV1", grouped("streamGroupByV1", select(stream(), "TAG AS TAG"))),
        aggregate("streamAggregateV1", grouped("streamGroupByV2", select(stream(), "TAG AS TAG"))),
        aggregate("tableAggregateV1", grouped("tableGroupByV1", table_select(table(), "TAG AS TAG"))),
        aggregate("tableAggregateV1", grouped("tableGroupByV2", table_select(table(), "TAG AS TAG"))),
        windowed(window("TUMBLING", size=span(1, "MINUTES"))),
        windowed(window("HOPPING", size=span(30), advanceBy=span(10))),
        windowed({**window("SESSION", gap=span(5)), "gracePeriod": span(2, "HOURS"), "emitStrategy": "FINAL"}),
    ]
    fk = {"joinType": "INNER", "formats": formats(), "leftSource": table("l"), "rightSource": table("r")}
    joins = [
        stream_join(),
        joined("streamTableJoinV1", stream(), table(), internalFormats=formats()),
        joined("tableTableJoinV1", table("l"), table("r")),
        step("fkTableTableJoinV1", "Join", **fk, leftJoinColumnName=None, leftJoinExpression="ABS(FED)"),
        step("fkTableTableJoinV1", "Join", **fk, leftJoinColumnName="FED", leftJoinExpression=None),
    ]
    suppressed = step(
        "tableSuppressV1",
        "Suppress",
        source=table_select(aggregates[-1], "TAG AS TAG"),
        refinementInfo={"outputRefinement": "FINAL"},
        internalFormats=formats(),
    )
    filtered = step(
        "streamFilterV1", "WhereFilter", source=windowed_sources[0], filterExpression="((N > 1) AND (TAG IS NOT NULL))"
    )
    exploded = step("streamFlatMapV1", "FlatMap", source=filtered, tableFunctions=["EXPLODE(ARRAY[1, 2])"])
    streams = [
        select(source, "TAG AS TAG", "(KILO + 1) AS `heavy er`")
        for source in (*rekeyed, exploded, kafka("Stream"), stream())
    ]
    results = [sink(table_select(t, "TAG AS TAG"), "table") for t in (*tables, *aggregates, *joins)]
    headed = [
        sink(step("streamHeadersV1", "Headers", source=streams[-1], headersColumn="TAG")),
        sink(
            step("tableHeadersV1", "Headers", source=table_select(table(), "TAG AS TAG"), headersColumn="TAG"), "table"
        ),
    ]
    return [*map(sink, streams), *results, suppressed, *headed]


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
