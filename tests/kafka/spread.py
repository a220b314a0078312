"""Cases on a real broker: those of several partitions, and a share of each file of ours and of ksqlDB's.

`python -m tests.kafka.spread` starts a broker and runs all of it; `tests/kafka/test_cases.py` runs less in CI.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.cases.known_gaps import load_gaps
from kestrel_qtt.cases.model import Result
from kestrel_qtt.cases.selection import Selection
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.load import load_all
from kestrel_qtt.runner import run_cases
from kestrel_sql.kafka.broker.broker import Broker

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = Path("tests/kafka/cases")
OURS = Path("test-cases")
KSQLDB = Path("../shared/ksqldb/query-validation-tests")

LEDGERS = {
    OURS: ("test-cases/known-gaps.yaml", "tests/kafka/known-gaps.yaml"),
    KSQLDB: ("tests/conformance/known-gaps.yaml",),
}
"""What does not pass in memory either, and what cannot pass on a broker."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Every n-th case of each file below `path`, and of these a shard."""

    path: Path
    every: int = 1
    shard: str = "1/1"

    @property
    def is_here(self) -> bool:
        """Whether there are such cases on this machine; ksqlDB's need not be."""
        return (ROOT / self.path).is_dir()


ALL = (Spread(PARTITIONS), Spread(OURS, every=5), Spread(KSQLDB, every=5))
"""What the issue asks for: more than 40 cases of several partitions, 200 of ours, 300 of ksqlDB's out of all files."""

IN_CI = (Spread(PARTITIONS, every=4), Spread(OURS, every=1000, shard="1/8"), Spread(KSQLDB, every=1000, shard="1/8"))
"""What every change runs: a quarter of the cases of several partitions, and the first case of every eighth file."""


def results_of(spread: Spread, driver: Driver) -> list[Result]:
    """Run cases with a driver that is open.

    Those of REST answers and SQL scripts, which run in memory only, are left out.
    """
    loaded = load_all(find_files([ROOT / spread.path])).cases
    records = [case for case in loaded if case.has_records]
    cases = Selection(None, spread.shard, spread.every).of(records)
    gaps = {name: gap for path in LEDGERS.get(spread.path, ()) for name, gap in load_gaps(ROOT / path).items()}
    return list(run_cases(cases, driver, RunOptions(), tolerant_errors=spread.path == KSQLDB, gaps=gaps))


def run(spread: Spread, servers: str, report: Path, more: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run cases on the broker, in a process of its own: Spark takes its connector along only when it starts."""
    command = [
        sys.executable,
        "-m",
        "kestrel_qtt.cli.main",
        "run",
        str(spread.path),
        "--every",
        str(spread.every),
        "--shard",
        spread.shard,
    ]
    settings = ["--tolerant-errors"] if spread.path == KSQLDB else []
    ledgers = [argument for ledger in LEDGERS.get(spread.path, ()) for argument in ("--known-gaps", ledger)]
    return subprocess.run(
        [*command, *settings, *more, *ledgers, "--kafka", servers, "--json", str(report)],
        cwd=ROOT,
        text=True,
        check=False,
    )


def main() -> int:
    """Run all on a broker started here; give 1 if a case fails."""
    with Broker.start() as broker:
        done = [
            run(spread, broker.address, ROOT / "build" / f"kafka-{spread.path.name}.json")
            for spread in ALL
            if spread.is_here
        ]
    return max(process.returncode for process in done)


if __name__ == "__main__":
    sys.exit(main())
