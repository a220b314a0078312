"""ksqlDB's own cases, REST cases, SQL scripts and three-file cases pass, but for those that the ledger lists.

It is strict both ways, so that the number only rises. A share of each file runs with every change, all cases nightly.
"""

from __future__ import annotations

import pytest

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.cases.known_gaps import load_gaps
from kestrel_qtt.cases.model import Status
from kestrel_qtt.drivers.driver import Driver
from kestrel_qtt.load import load_all
from tests.conformance.corpus_shards import (
    CORPORA,
    EVERY,
    KSQLDB,
    LEDGER,
    Shard,
    assert_as_listed,
    corpus,
    run_shard,
    sample,
    shards,
)

pytestmark = pytest.mark.conformance
WRONG = KSQLDB / "test-runner" / "incorrect"
needs_corpus = pytest.mark.skipif(
    not all(folder.is_dir() for folder in [*CORPORA, WRONG]), reason=f"ksqlDB's cases are not all at {KSQLDB}"
)
FEW, MANY = 2, 16
"""The number of shards of the sample, and of all cases; to count the cases, each worker would have to read them."""


@needs_corpus
@pytest.mark.spark
@pytest.mark.parametrize("at", range(FEW))
def test_a_share_of_each_file_passes_or_is_listed(at: int, spark_driver: Driver) -> None:
    assert_as_listed(shards(sample(corpus().cases, load_gaps(LEDGER)), FEW)[at], spark_driver, LEDGER)


@needs_corpus
@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("at", range(MANY))
def test_all_cases_pass_or_are_listed(at: int, spark_driver: Driver) -> None:
    assert_as_listed(shards(corpus().cases, MANY)[at], spark_driver, LEDGER)


@needs_corpus
def test_the_share_has_cases_of_every_file() -> None:
    cases = corpus().cases
    chosen = sample(cases, ())
    assert {case.file for case in chosen} == {case.file for case in cases}
    assert len(cases) // EVERY < len(chosen) < len(cases) // 2


@needs_corpus
def test_every_file_can_be_read() -> None:
    assert [str(error) for error in corpus().errors] == []


@needs_corpus
def test_every_listed_case_exists() -> None:
    known = {case.id for case in corpus().cases}
    stale = [f"{gap.file}:{gap.line}: {gap.case}" for name, gap in load_gaps(LEDGER).items() if name not in known]
    assert not stale, "\n".join(["the ledger lists cases that do not exist", *stale])


@needs_corpus
@pytest.mark.spark
def test_wrong_cases_fail(spark_driver: Driver) -> None:
    loaded = load_all(find_files([WRONG]))
    results = run_shard(Shard("incorrect", loaded.cases), spark_driver)
    assert [result.case.name for result in results if result.status is Status.PASSED] == []
    assert {error.file.parent.name for error in loaded.errors} | {result.case.name for result in results} == {
        folder.name for folder in WRONG.iterdir()
    }
