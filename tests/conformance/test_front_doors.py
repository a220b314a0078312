"""ksqlDB's REST cases, SQL scripts and three-file cases pass, but for those that the ledger lists; strict both ways."""

from __future__ import annotations

from functools import cache

import pytest
from corpus_shards import CORPUS, LEDGER, Shard, complaints, run_shard, shards

from qtt.corpus import find_files
from qtt.driver import Driver
from qtt.gaps import load_gaps
from qtt.load import Loaded, load_all
from qtt.model import Status

pytestmark = pytest.mark.conformance
FOLDERS = [CORPUS.parent / name for name in ("rest-query-validation-tests", "sql-tests", "test-runner/correct")]
WRONG = CORPUS.parent / "test-runner" / "incorrect"
needs_corpus = pytest.mark.skipif(not all(folder.is_dir() for folder in FOLDERS), reason=f"ksqlDB's cases are not at {CORPUS.parent}")


@cache
def corpus() -> Loaded:
    """Load the corpora; nothing where they are absent."""
    return load_all(find_files(folder for folder in FOLDERS if folder.is_dir()))


SHARDS = shards(corpus().cases) if corpus().cases else [Shard("absent", ())]


@needs_corpus
@pytest.mark.spark
@pytest.mark.parametrize("shard", SHARDS, ids=[shard.name for shard in SHARDS])
def test_cases_pass_or_are_listed(shard: Shard, spark_driver: Driver) -> None:
    found = list(complaints(run_shard(shard, spark_driver), load_gaps(LEDGER)))
    assert not found, "\n".join([f"{len(found)} of {len(shard.cases)} cases are not as {LEDGER} says", *found])


@needs_corpus
def test_every_file_can_be_read() -> None:
    assert [str(error) for error in corpus().errors] == []


@needs_corpus
@pytest.mark.spark
def test_wrong_cases_fail(spark_driver: Driver) -> None:
    loaded = load_all(find_files([WRONG]))
    results = run_shard(Shard("incorrect", loaded.cases), spark_driver)
    assert [result.case.name for result in results if result.status is Status.PASSED] == []
    assert {error.file.parent.name for error in loaded.errors} | {result.case.name for result in results} == {
        folder.name for folder in WRONG.iterdir()
    }
