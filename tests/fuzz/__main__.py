"""Runs the fuzzers: `python -m tests.fuzz --seed 7 --tries 100000 expressions codecs`; without names, all of them.

Each fuzzer makes `tries` tries of its kind, or as many as it has, and prints how many differ or fail. The exit code is
1 if any does. The same seed makes the same tries. `INTO=docs/reliability.md` puts the rows into the table of that page.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import date
from itertools import chain
from pathlib import Path

from tests.bench.tables import write_rows
from tests.engine.formats import test_mutations as messages
from tests.engine.plan import test_plan_mutations as plans
from tests.engine.server import test_fuzz as requests
from tests.fuzz import (
    agreement,
    applications,
    asked_expressions,
    checkpoints,
    codecs,
    earlier,
    expressions,
    oracle,
    statements,
)
from tests.qtt import test_damaged_files as files

EXPRESSIONS, ROWS = 150, 60
"""The expressions and rows of one batch."""

EXPRESSIONS_OF_AN_APPLICATION = 5
"""An application takes as long as several expressions."""

TRIES_OF_AN_EARLIER_COMPARISON = 50
"""An application on Spark at two commits, whole and cut, takes as long as so many expressions."""

SERVER_TRIES = 100_000
"""A try opens a connection; more would use up the ports of the machine."""


def generated_expressions(seed: int, tries: int) -> Iterator[str]:
    """Compare the paths of generated expressions."""
    done, number = 0, 0
    while done < tries:
        count, found = expressions.batch(seed * 1_000_003 + number, EXPRESSIONS, ROWS)
        done, number = done + count, number + 1
        yield from map(str, found)
        print(f"expressions: {done:,} of {tries:,}", file=sys.stderr, flush=True)


def asked_of_ksqldb(seed: int, tries: int) -> Iterator[str]:
    """Compare expressions, and a fifth as many applications, with ksqlDB's engine."""
    from kestrel_qtt.drivers.open import open_driver

    compared, finds = agreement.Compared(open_driver("process"), oracle.Oracle()), agreement.Finds()

    def tell(text: str) -> None:
        print(f"oracle: {text}", file=sys.stderr, flush=True)

    with closing(compared):
        yield from agreement.stale(compared)
        for case, text in chain(
            asked_expressions.differences(compared, seed, tries, tell),
            applications.differences(compared, seed, tries // EXPRESSIONS_OF_AN_APPLICATION, tell),
        ):
            yield from finds.take(compared, case, text)
    tell(finds.summary())


def compared_with_an_earlier_commit(seed: int, tries: int) -> Iterator[str]:
    """Compare a fiftieth as many applications with what they gave before the one dataflow."""

    def tell(text: str) -> None:
        print(f"earlier: {text}", file=sys.stderr, flush=True)

    yield from earlier.differences(seed, max(1, tries // TRIES_OF_AN_EARLIER_COMPARISON), tell)


def generated_messages(seed: int, tries: int) -> Iterator[str]:
    """Compare the bulk codec with the record codec of each format."""
    for format in codecs.FORMATS:
        yield from codecs.differences(format, seed, tries)
        print(f"codecs: {format} done", file=sys.stderr, flush=True)


def mutated_messages(seed: int, tries: int) -> Iterator[str]:
    """Decode mutated messages of each format, alone and in batches."""
    for name in (*messages.FORMATS, *messages.FLAT_TOO):
        yield from _failure(lambda name=name: messages.check(name, tries, seed))  # type: ignore[misc]


def mutated_plans(seed: int, tries: int) -> Iterator[str]:
    """Decode mutated plans, and run a twentieth of them as far as Spark."""
    yield from _failure(lambda: plans.damaged(seed, tries))
    yield from _failure(lambda: plans.compiled(seed, tries // 20))


def mutated_files(seed: int, tries: int) -> Iterator[str]:
    """Load case files with wrong values and damaged texts."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        for file, kind, ksqldb, document in files.DOCUMENTS.values():
            texts = [
                *map(files.json.dumps, files.mutants(document)),
                *files.damaged_texts(files.json.dumps(document, indent=1)),
            ]
            for text in rng.sample(texts, min(tries, len(texts))):
                yield from _failure(lambda: files.check(Path(folder) / file, kind, text, ksqldb=ksqldb))  # noqa: B023


def mutated_requests(seed: int, tries: int) -> Iterator[str]:
    """Send mutated requests to a server."""
    yield from _failure(lambda: requests.run(min(tries, SERVER_TRIES), seed))


def _failure(attempt: Callable[[], object]) -> Iterator[str]:
    try:
        attempt()
    except Exception:  # noqa: BLE001 - any error is a find
        yield traceback.format_exc(limit=-3)


FUZZERS: Mapping[str, Callable[[int, int], Iterator[str] | list[str]]] = {
    "codecs": generated_messages,
    "messages": mutated_messages,
    "plans": mutated_plans,
    "files": mutated_files,
    "statements": statements.damaged_statements,
    "properties": statements.odd_properties,
    "requests": mutated_requests,
    "checkpoints": checkpoints.damages,
    "expressions": generated_expressions,
    "oracle": asked_of_ksqldb,
    "earlier": compared_with_an_earlier_commit,
}


def main() -> int:
    """Run the chosen fuzzers."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(FUZZERS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tries", type=int, default=10_000)
    given = parser.parse_args()
    unknown = set(given.kinds) - set(FUZZERS)
    if unknown:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    total = 0
    rows = []
    for kind in given.kinds or FUZZERS:
        if kind == "oracle" and not oracle.is_present():
            print(f"oracle: {oracle.ABSENT}", file=sys.stderr, flush=True)
            continue
        start, finds = time.monotonic(), 0
        for find in FUZZERS[kind](given.seed, given.tries):
            finds += 1
            print(find.encode("utf-8", "backslashreplace").decode(), flush=True)
        print(
            f"{kind}: {given.tries} tries, seed {given.seed}, {finds} finds, {time.monotonic() - start:.0f} s",
            flush=True,
        )
        rows.append([kind, f"{given.tries:,}", str(given.seed), str(finds), f"{date.today():%Y-%m-%d}"])
        total += finds
    write_rows("fuzz", ["Kind", "Tries", "Seed", "Finds", "Of"], rows)
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
