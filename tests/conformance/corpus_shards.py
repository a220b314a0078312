"""ksqlDB's cases: which run with every change, in shards that share queries, and the judgement by the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.cases.known_gaps import Ledger, load_gaps
from kestrel_qtt.cases.model import Case, Result, Status
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.load import Loaded, load_all
from kestrel_qtt.runner import run_cases

ROOT = Path(__file__).resolve().parents[2]
KSQLDB = ROOT.parent / "shared" / "ksqldb"
CORPORA = [
    KSQLDB / name
    for name in ("query-validation-tests", "rest-query-validation-tests", "sql-tests", "test-runner/correct")
]
LEDGER = Path(__file__).with_name("known-gaps.yaml")
EVERY = 32
"""Of each file, one case in so many runs with every change, the others nightly."""
SIZE = 120
"""Cases of a shard: more share a query than by default, as no user waits for the first result."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Neighbouring cases that share a query."""

    name: str
    cases: tuple[Case, ...]


@cache
def corpus() -> Loaded:
    """Load all cases that must pass; nothing where they are absent."""
    return load_all(find_files(folder for folder in CORPORA if folder.is_dir()))


def sample(cases: Iterable[Case], listed: Collection[str], every: int = EVERY) -> list[Case]:
    """Choose one of `every` cases of each file, at least one, by a hash of their ids; and all cases that are `listed`.

    A new or renamed case hardly changes which of the others are chosen. Without the listed cases, a case that passes
    again would be noticed at night only.
    """
    files = defaultdict(list)
    for case in cases:
        files[case.file].append(case)
    chosen = []
    for found in files.values():
        by_hash = sorted(found, key=lambda case: crc32(case.id.encode()))
        ids = {case.id for case in by_hash[: -(-len(found) // every)]}.union(listed)
        chosen += [case for case in found if case.id in ids]
    return chosen


def shards(cases: Sequence[Case], count: int) -> list[Shard]:
    """Cut `cases` into a number of shards, named for the files of their first and last case."""
    found = []
    for at in range(count):
        some = tuple(cases[at * len(cases) // count : (at + 1) * len(cases) // count])
        found.append(Shard(f"{some[0].file.stem} to {some[-1].file.stem}" if some else "none", some))
    return found


def run_shard(shard: Shard, driver: Driver) -> list[Result]:
    """Run the cases of a shard together."""
    return list(run_cases(shard.cases, driver, RunOptions(group_size=SIZE), tolerant_errors=True))


def complaints(results: Iterable[Result], ledger: Ledger) -> Iterator[str]:
    """Say what the ledger does not foresee: a case that fails unlisted, or passes listed."""
    for result in results:
        listed = result.case.id in ledger
        if result.status is Status.PASSED and listed:
            gap = ledger[result.case.id]
            yield f"{result.case.id} passes: remove it from {gap.file.name} (line {gap.line})"
        elif result.status in (Status.FAILED, Status.ERROR) and not listed:
            yield f"{result.status} {result.case.id}\n  {result.case.file}:{result.case.line}\n  {result.reason}"


def assert_as_listed(shard: Shard, driver: Driver, ledger: Path) -> None:
    """Run a shard and compare with the ledger, both ways."""
    found = list(complaints(run_shard(shard, driver), load_gaps(ledger)))
    assert not found, "\n".join([f"{shard.name}: {len(found)} of {len(shard.cases)} are not as {ledger} says", *found])
