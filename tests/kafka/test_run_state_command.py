"""Tests `kestrel state` on the checkpoint of a run: while it runs, and through Hadoop's file system as on a store."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.cli.main import main
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.run.stored_queries import stored_queries
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, open_store
from kestrel_sql.spark.state_tools.summary import as_document, summarise
from tests.kafka.applications import Applications
from tests.kafka.helpers import create, produce, read
from tests.kafka.stored import APP, EARLIEST, NOW

pytestmark = pytest.mark.spark

KEYS = 25
"""More than a query has pages with rows, so that pages are not taken for rows."""


def records(first: int, count: int) -> Iterator[tuple[str, str, int]]:
    return ((f"k{n % KEYS}", json.dumps({"V": n}), NOW + n) for n in range(first, first + count))


def test_the_state_of_a_running_query_is_read_as_of_its_last_batch(
    applications: Applications, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, servers, checkpoint = f"state_{time.time_ns()}", applications.config.servers, tmp_path / "c"
    create(servers, 2, f"{name}_s")
    sink = f"{name}_t_live"

    def told(*arguments: object) -> tuple[int, str, str]:
        code = main(["state", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    def shown() -> int:
        """The count of a key in the state; 0 before the first batch."""
        _, out, _ = told("show", checkpoint, "k1")
        return max((json.loads(line)["value"]["KSQL_AGG_VARIABLE_0"] for line in out.splitlines()), default=0)

    with applications.running(APP.format(name=name, sink="live"), checkpoint, properties=EARLIEST) as run:
        produce(servers, f"{name}_s", records(0, 100))
        run.await_(lambda: len(read(servers, sink, 2)) == 100, pause=0.3)
        run.await_(lambda: shown() == 100 // KEYS, pause=0.3)
        code, out, err = told("ls", checkpoint, "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert found["keys"] == found["rows"] == KEYS
        assert found["pages"] < KEYS
        run.await_(lambda: run.states["CTAS_T_0"].state_rows == KEYS)
        assert told("diff", checkpoint, checkpoint) == (0, "", "no difference\n")
        code, out, err = told("export", checkpoint, "--parquet", tmp_path / "out")
        assert (code, err, out.count(f"{KEYS} rows")) == (0, "", 1)
    by_path, by_store = summaries(checkpoint), summaries(open_store(spark, checkpoint.as_uri()))
    assert by_path == by_store
    assert [summary["keys"] for summary in by_path] == [KEYS]
    produce(servers, f"{name}_s", [("k1", '{"V": 1}', NOW), ("another", '{"V": 1}', NOW)])
    resumed = applications.catch_up(APP.format(name=name, sink="live"), checkpoint)
    assert resumed.states["CTAS_T_0"].state_rows == KEYS + 1, "those of untouched pages, too"


def summaries(checkpoint: CheckpointPath) -> list[Mapping[str, Any]]:
    (query,) = stored_queries(checkpoint, FUNCTIONS)
    return [as_document(query, summary) for summary in summarise(query)]
