"""Resumes all stored checkpoints of historic-plans on a store, in a process with a Spark of its own.

python -m tests.kafka.stored_states URI [NAME=VALUE …]          (settings of Spark; prints a line of JSON for each)
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kestrel_qtt.cases.discovery import case_file
from kestrel_qtt.cases.model import Case, Result
from kestrel_qtt.load import load_stored
from kestrel_qtt.plan_commands.resume import resumed
from kestrel_qtt.plans.checkpoints import Frozen, find, read, unpack
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.kafka.connector.store import store_settings
from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.in_memory.runner import MemoryRunner, Row, finish, input_row, outputs_of
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.state.checkpoint_path import StorePath, open_store
from kestrel_sql.topics.records import Record
from tests.environments import ROOT

STORE = ROOT / "historic-plans"


def main(uri: str, settings: Mapping[str, str]) -> None:
    """Resume each checkpoint from a copy below `uri`."""
    spark = open_test_session({**store_settings(uri), **settings})
    root, runner = open_store(spark, uri), MemoryRunner(spark)
    for number, path in enumerate(find(STORE)):
        frozen, case = read(path), load_stored(case_file(path.with_name("spec.json")))
        result = resume(case, frozen, runner, root / str(number))
        found = {"checkpoint": f"{path.parent.parent.name}-{path.stem}", "status": result.status.value}
        sys.stdout.write(json.dumps({**found, "reason": result.reason}) + "\n")
        sys.stdout.flush()
    runner.close()
    spark.stop()


def resume(case: Case, frozen: Frozen, runner: MemoryRunner, target: StorePath) -> Result:
    """Resume a query from a copy of its checkpoint on a store, with the other inputs of its case."""

    def after(pipeline: Pipeline, feed: Sequence[Record]) -> Output:
        copy(frozen, target)
        spark: SparkSession = runner.spark
        check_start(lambda: spark, pipeline, target)
        stream: Any = runner.stream()
        rows = [input_row(0, at, record) for at, record in enumerate(feed)]
        for part in (rows[: frozen.inputs], rows[frozen.inputs :]):
            runner.feed(stream, part)
        written: dict[int, list[Row]] = {}
        writer = runner.collecting(pipeline.frame(runner.read(stream)), written, runner.name())
        finish(writer.option("checkpointLocation", target.uri).trigger(availableNow=True).start())
        return outputs_of([row for batch in written.values() for row in batch], 1)[0]

    return resumed(case, frozen, after)


def copy(frozen: Frozen, target: StorePath) -> None:
    """Copy a checkpoint to a store. Spark writes full paths of schemas into it."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(frozen, Path(folder))
        for file in (each for each in Path(folder).rglob("*") if each.is_file()):
            data, there = file.read_bytes(), target
            if "_metadata" in file.parts:
                own = rf'"{target.uri}/state/'.encode()
                data = re.sub(rb'"file:[^"]*?/state/(?=\d+/_stateSchema/)', own, data)
            for part in file.relative_to(folder).parts:
                there = there / part
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_whole(data)


if __name__ == "__main__":
    main(sys.argv[1], dict(each.split("=", 1) for each in sys.argv[2:]))
