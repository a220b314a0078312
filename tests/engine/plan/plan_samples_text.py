"""A small plan in JSON, built anew at each call so that tests may change it."""

from __future__ import annotations

from typing import Any


def aggregate_plan() -> dict[str, Any]:
    """Two statements: a stream, and a table of sums per key."""
    formats = {"keyFormat": {"format": "KAFKA"}, "valueFormat": {"format": "JSON"}}

    def step(tag: str, context: str, source: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        link = {} if source is None else {"source": source}
        return {"@type": tag, "properties": {"queryContext": context}, **fields, **link}

    schema = "`K` INTEGER KEY, `V` BIGINT"
    source = step(
        "streamSourceV1",
        "KsqlTopic/Source",
        topicName="in",
        formats=formats,
        sourceSchema=schema,
        pseudoColumnVersion=1,
    )
    prepared = step(
        "streamSelectV1", "Aggregate/Prepare", source, keyColumnNames=["K"], selectExpressions=["K AS K", "V AS V"]
    )
    grouped = step("streamGroupByKeyV1", "Aggregate/GroupBy", prepared, internalFormats=formats)
    summed = step(
        "streamAggregateV1",
        "Aggregate/Aggregate",
        grouped,
        internalFormats=formats,
        nonAggregateColumns=["K", "V"],
        aggregationFunctions=["SUM(V)"],
    )
    projected = step(
        "tableSelectV1",
        "Aggregate/Project",
        summed,
        keyColumnNames=["K"],
        selectExpressions=["KSQL_AGG_VARIABLE_0 AS S"],
    )
    sink = step("tableSinkV1", "OUT", projected, formats=formats, topicName="OUT")
    stream = {"@type": "createStreamV1", "sourceName": "IN", "schema": schema, "topicName": "in", "formats": formats}
    table = {
        "@type": "createTableV1",
        "sourceName": "OUT",
        "schema": "`K` INTEGER KEY, `S` BIGINT",
        "topicName": "OUT",
        "formats": formats,
    }
    query = {"sources": ["IN"], "sink": "OUT", "queryId": "CTAS_OUT_0", "physicalPlan": sink}
    return {
        "plan": [
            {"@type": "ksqlPlanV1", "statementText": "CREATE STREAM IN …", "ddlCommand": stream},
            {"@type": "ksqlPlanV1", "statementText": "CREATE TABLE OUT …", "ddlCommand": table, "queryPlan": query},
        ],
        "configs": {},
    }
