"""ksqlDB's own cases pass, but for those that the ledger lists; it is strict both ways, so that the number only rises."""

from __future__ import annotations

import pytest
from corpus_shards import CORPUS, LEDGER, Shard, complaints, corpus, run_shard, shards

from qtt.driver import Driver
from qtt.gaps import load_gaps

pytestmark = pytest.mark.conformance
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"ksqlDB's cases are not at {CORPUS}")
SHARDS = shards(corpus().cases) or [Shard("absent", ())]


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
def test_every_listed_case_exists() -> None:
    known = {case.id for case in corpus().cases}
    stale = [f"{gap.file}:{gap.line}: {gap.case}" for name, gap in load_gaps(LEDGER).items() if name not in known]
    assert not stale, "\n".join(["the ledger lists cases that do not exist", *stale])
