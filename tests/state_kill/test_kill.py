"""A driver killed within a micro-batch and restarted from its checkpoint gives the outputs of an undisturbed one."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.spark.runtime.session import open_test_session
from tests.state_kill import driver
from tests.state_kill.shapes import SHAPES, rows_of_batch

ROOT = Path(__file__).parents[2]


@dataclass
class Run:
    """One run of a pipeline: its input, checkpoint and output folders."""

    names: list[str]
    folder: Path
    batches: int
    interrupted: list[int] = field(default_factory=list)
    kills: int = 0

    def __post_init__(self) -> None:
        self.given, self.checkpoint, self.out = (self.folder / each for each in ("in", "checkpoint", "out"))
        for each in (self.given, self.out):
            each.mkdir(parents=True)
        for batch in range(self.batches):
            file = self.given / f"{batch:03}.json"
            file.write_text("".join(json.dumps(row) + "\n" for row in rows_of_batch(self.names, batch)))
            # Spark reads files in the order of their modification times.
            os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))

    def start(self) -> subprocess.Popen[bytes]:
        arguments = [
            sys.executable,
            "-m",
            "tests.state_kill.driver",
            ",".join(self.names),
            *map(str, (self.given, self.checkpoint, self.out)),
        ]
        with (self.folder / "driver.log").open("ab") as log:
            # A process group of its own, so that the JVM is killed with the driver.
            return subprocess.Popen(arguments, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def finish(self) -> None:
        """Process what is left, in this process."""
        driver.run(open_test_session(), self.names, self.given, self.checkpoint, self.out)

    def kill_in(self, batch: int, delay: float) -> None:
        """Start the driver, and kill it some seconds after it started a batch."""
        assert batch < self.batches - 1, "after the last batch the driver may end before the signal comes"
        marker = self.out / f"started-{batch}"
        marker.unlink(missing_ok=True)
        process = self.start()
        deadline = time.monotonic() + driver.MOST_S
        while not marker.exists():
            assert process.poll() is None, (self.folder / "driver.log").read_text()[-3000:]
            assert time.monotonic() < deadline, f"batch {batch} did not begin"
            time.sleep(0.005)
        time.sleep(delay)
        assert process.poll() is None, "the driver had ended before it was killed"
        _kill(process)
        self.kills += 1
        if self.committed() <= batch:
            self.interrupted.append(batch)

    def committed(self) -> int:
        """Return the number of batches that Spark committed."""
        return sum(path.name.isdigit() for path in (self.checkpoint / "commits").glob("*"))

    def attempts(self) -> dict[int, list[list[Any]]]:
        """Return the complete outputs of each batch, one for each run to its end."""
        found: dict[int, list[list[Any]]] = {}
        for file in sorted(self.out.glob("*.jsonl")):
            lines = file.read_text().splitlines()
            if lines and lines[-1] == '"end"':
                found.setdefault(int(file.name.split(".")[0]), []).append([json.loads(line) for line in lines[:-1]])
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return all outputs, those of a repeated batch once. After a kill, a file source may take two files at
        once.
        """
        attempts = self.attempts()
        assert sorted(attempts) == list(range(self.committed())), "the output of a batch is lost"
        for batch, (first, *others) in attempts.items():
            assert all(other == first for other in others), f"a replay of batch {batch} differs"
        return sorted(
            (row for first, *_ in attempts.values() for row in first), key=lambda row: (row["q"], row["ordinal"])
        )

    def replays(self) -> int:
        """Return the number of batches that ran to their end more than once."""
        return sum(len(attempts) > 1 for attempts in self.attempts().values())

    def summary(self) -> str:
        """Return one line about the kills and the outputs."""
        return (
            f"{', '.join(self.names)}: {self.kills} kills, {len(self.interrupted)} in the midst of a batch,"
            f" {self.replays()} batches replayed whole, {len(self.rows())} output records each once, state equal in"
            f" {len(self.state())} pages\n"
        )

    def state(self) -> Any:
        return json.loads((self.out / "state.json").read_text())


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _proved(names: list[str], folder: Path, seed: int, kills: int, batches: int) -> Run:
    """Run once undisturbed and once with kills, and compare."""
    calm, killed = Run(names, folder / "calm", batches), Run(names, folder / "killed", batches)
    calm.finish()
    random_ = random.Random(seed)
    for _ in range(kills):
        killed.kill_in(killed.committed() + random_.randrange(2), random_.uniform(0, 0.4))
    killed.finish()
    expected, actual = calm.rows(), killed.rows()
    assert {row["q"] for row in expected} == set(range(len(names)))
    assert not [row for row in expected if row["kind"] is not None]
    assert actual == expected
    assert killed.state() == calm.state()
    assert calm.state()
    assert killed.kills == kills
    return killed


@pytest.mark.nightly
@pytest.mark.spark
def test_two_kills_of_all_shapes_in_one_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _proved(list(SHAPES), tmp_path, seed=1, kills=2, batches=5)
    assert run.interrupted, "no kill fell into a batch"
    with capsys.disabled():
        sys.stdout.write(f"\n{run.summary()}")


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.parametrize("name", SHAPES)
def test_five_kills_of_each_shape(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _proved([name], tmp_path, seed=sum(name.encode()), kills=5, batches=14)
    assert len(run.interrupted) >= 4, "too few kills fell into a batch"
    with capsys.disabled():
        sys.stdout.write(f"\n{run.summary()}")
