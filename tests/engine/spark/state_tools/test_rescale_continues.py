"""A query that goes on from its rescaled state gives what one gives that never stopped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.spark.in_memory.resumable import ResumableRunner
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.state_tools.difference import differences
from kestrel_sql.spark.state_tools.rescale import rescale
from kestrel_sql.spark.state_tools.stored_query import open_stored
from tests.engine.spark.state_tools.checkpoints import SHAPES, Run, pipeline, records

pytestmark = pytest.mark.spark

DAILY = {"aggregate"}
PAGES, TASKS, PARTITIONS, BATCH = 4, 2, 2, 60


@pytest.fixture(scope="module")
def runner() -> Iterator[ResumableRunner]:
    spark = open_test_session()
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    opened = ResumableRunner(spark)
    yield opened
    opened.close()
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.mark.parametrize(
    "shape", [shape if shape in DAILY else pytest.param(shape, marks=pytest.mark.nightly) for shape in SHAPES]
)
def test_a_rescaled_query_goes_on_as_if_it_had_never_stopped(
    runner: ResumableRunner, shape: str, tmp_path: Path
) -> None:
    made = pipeline(shape)
    given = [records(BATCH * at, BATCH * (at + 1), TASKS) for at in range(3)]
    steady = Run(runner, made, PAGES, TASKS, tmp_path / "steady")
    for batch in given[:2]:
        steady.advance(batch)
    rescaled = Run(runner, made, 7, TASKS, tmp_path / "rescaled")
    stopped = open_stored(steady.checkpoint, FUNCTIONS)
    assert rescale(stopped, rescaled.checkpoint, partitions=3, pages=7).rows > 0
    for batch in given[:2]:
        rescaled.skip(batch)
    expected = steady.advance(given[2])
    assert expected
    assert rescaled.advance(given[2]) == expected
    after = open_stored(rescaled.checkpoint, FUNCTIONS)
    assert (after.batches, len(after.partitions(1)), after.metadata.pages) == (3, 3, 7)
    assert list(differences(open_stored(steady.checkpoint, FUNCTIONS), after)) == []
    shutil.rmtree(tmp_path)
