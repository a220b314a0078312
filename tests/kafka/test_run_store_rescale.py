"""Tests that a checkpoint on S3 and on HDFS is rescaled: with kills at each step, and while a run wants it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.helpers import environment, produce, spark_options, states
from tests.kafka.rescale_steps import PAGES, PARTITIONS, STEPS
from tests.kafka.stored import KEYS, WAIT_S, Stored, records
from tests.kafka.stores import KINDS, store_of

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

SAME = ("keys", "rows", "streamTimes", "lastBatch")
SWITCHED = STEPS[STEPS.index("switch") + 1 :]


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_on_a_store_is_rescaled_whatever_stops_the_command(
    stored: Stored, tmp_path: Path, kind: str
) -> None:
    with store_of(kind, tmp_path) as way:
        uri, stored = f"{way.uri}/{stored.name}", replace(stored, settings=way.settings)
        produce(stored.servers, f"{stored.name}_s", records(0, 100))
        first = stored.start(uri, "store")
        stored.await_rows(first, "store", 100)
        before = state_of(uri, stored)
        code, said = rescaled(uri, stored)
        assert (code, f"in use by another kestrel run (process {first.pid} on" in said) == (1, True), said
        first.send_signal(signal.SIGTERM)
        assert first.wait(WAIT_S) == 0, stored.log("store").read_text(encoding="utf-8")
        for step in STEPS:
            with stopped(uri, stored, "kill", step) as command:
                assert command.wait(WAIT_S) == -signal.SIGKILL
            found = state_of(uri, stored)
            assert numbers(found) == ((PARTITIONS, PAGES) if step in SWITCHED else numbers(before)), step
            assert [found[name] for name in SAME] == [before[name] for name in SAME], step
            if step in SWITCHED:
                partitions, pages = map(str, numbers(before))
                code, said = rescaled(uri, stored, "--partitions", partitions, "--pages", pages)
                assert (code, "all the same" in said) == (0, True), said
        with stopped(uri, stored, "wait", "switch") as command:
            code, said = stored.run(uri, "store", "--until-caught-up")
            assert (code, f"in use by another kestrel run (process {command.pid} on" in said) == (1, True), said
            command.communicate(timeout=WAIT_S)
            assert command.returncode == 0
        assert numbers(state_of(uri, stored)) == (PARTITIONS, PAGES)
        produce(stored.servers, f"{stored.name}_s", records(100, 300))
        code, said = stored.run(uri, "store", "--until-caught-up")
        assert code == 0, said
        found = state_of(uri, stored)
        assert (numbers(found), found["keys"]) == ((PARTITIONS, PAGES), KEYS)
    assert stored.run(tmp_path / "local", "folder", "--until-caught-up")[0] == 0
    on_store, in_folder = stored.outputs(["store", "folder"])
    assert len(on_store) == 400
    assert on_store == in_folder


def state_of(uri: str, stored: Stored) -> Mapping[str, Any]:
    """What `kestrel state ls` says of the only step of a run."""
    (found,) = states(uri, stored.settings)
    return found


def rescaled(uri: str, stored: Stored, *options: str) -> tuple[int, str]:
    """Run `kestrel state rescale`."""
    numbers = options or ("--partitions", str(PARTITIONS))
    command = [sys.executable, "-m", "kestrel_sql.cli.main", "state", "rescale", "--checkpoint", uri, *numbers]
    command += spark_options(stored.settings)
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False, env=environment())
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def stopped(uri: str, stored: Stored, action: str, step: str) -> subprocess.Popen[str]:
    """Start a command that is killed or waits at a step, which it has reached."""
    settings = ["=".join(setting) for setting in stored.settings.items()]
    command = [sys.executable, "-m", "tests.kafka.rescale_steps", uri, action, step, *settings]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    assert process.stdout is not None
    assert step in (line.strip() for line in process.stdout), f"the command did not come to {step}"
    return process


def numbers(found: Mapping[str, Any]) -> tuple[int, int]:
    """The partitions of a step, and the pages of its tasks."""
    return found["partitions"], found["pagesPerTask"]
