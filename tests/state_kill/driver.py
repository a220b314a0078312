"""Runs shapes over a folder of files, one file a micro-batch; as a process of its own, it is there to be killed.

Files in `out`: `started-<batch>` before a batch runs; `<batch>.<process>.jsonl` with its output, ending in the line
`"end"`; `state.json` at the end.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.session.session import Session
from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.io.topics import WIRE_INPUT
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.runtime.session import INTERPRETED, open_session
from tests.state_kill.shapes import SHAPES

MOST_S = 300
_STORE = "spark.sql.streaming.stateStore"
CHANGELOGS = {
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STORE}.minDeltasForSnapshot": "2",
    f"{_STORE}.maintenanceInterval": "1s",
}
"""State is written as by a run on a broker, with archives so often that kills come between any two."""


def run(spark: SparkSession, names: list[str], given: Path, checkpoint: Path, out: Path) -> None:
    """Process all files that no run before has processed."""
    records = spark.readStream.schema(WIRE_INPUT).option("maxFilesPerTrigger", 1).json(str(given))
    built = pipeline(names)
    frame = built.frame(records)
    check_start(lambda: spark, built, checkpoint)

    def write(rows: DataFrame, batch: int) -> None:
        (out / f"started-{batch}").touch()
        found = rows.toArrow().to_pylist()
        with (out / f"{batch}.{os.getpid()}.jsonl").open("w") as file:
            for row in sorted(found, key=lambda row: (row["q"], row["ordinal"])):
                file.write(json.dumps(row, default=_plain) + "\n")
                file.flush()
            file.write('"end"\n')

    writer = frame.writeStream.foreachBatch(write).outputMode("update").option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(MOST_S)
    (out / "state.json").write_text(json.dumps(states(spark, checkpoint), default=_plain, sort_keys=True))


def pipeline(names: list[str]) -> Pipeline:
    runs = []
    for name in names:
        session = Session()
        for statement in session.parse(SHAPES[name].statements):
            session.execute(statement)
        (query,) = session.queries.values()
        runs.append(QueryRun(plan=query.plan, settings=query.config, serde=session.serde()))
    return build_pipeline(runs)


def states(spark: SparkSession, checkpoint: Path) -> dict[str, Any]:
    """Return the final state in the pages of each operator."""
    found: dict[str, Any] = {}
    for operator in sorted(path.name for path in (checkpoint / "state").iterdir() if path.name.isdigit()):
        reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", "page")
        for row in reader.load(str(checkpoint)).collect():
            found[f"{operator} {row['key']}"] = _text_keys(load_state(bytes(row["value"]["blob"])))
    return found


def _text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _text_keys(each) for key, each in value.items()}
    return [_text_keys(each) for each in value] if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, (bytes, bytearray)) else str(value)


if __name__ == "__main__":
    run(
        open_session(extra={**INTERPRETED, **CHANGELOGS}),
        sys.argv[1].split(","),
        *(Path(each) for each in sys.argv[2:5]),
    )
