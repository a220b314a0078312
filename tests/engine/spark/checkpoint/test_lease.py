"""Tests the lease of a checkpoint on a store, here on a folder: one owner at a time, and a lost lease ends its run."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PosixPath
from threading import Event
from typing import Any

import pytest

from kestrel_sql.errors import CheckpointInUseError, EngineError
from kestrel_sql.spark.checkpoint.lease import Lease
from kestrel_sql.spark.state.checkpoint_path import create_new

SHORT = 0.5


def lease(folder: Path, seconds: float = SHORT, lose: Callable[[], None] = lambda: None) -> Lease:
    return Lease(checkpoint=folder, lose=lose, seconds=seconds)


def take(wanted: Lease) -> list[str]:
    said: list[str] = []
    wanted.take(said.append, Event())
    return said


def test_a_released_lease_is_taken_at_once_with_the_next_number(tmp_path: Path) -> None:
    for number in range(1, 9):
        held = lease(tmp_path, seconds=3600)
        assert take(held) == []
        assert held.number == number
        held.release()
    assert sorted(int(each.name) for each in (tmp_path / "lease").iterdir()) == [3, 4, 5, 6, 7, 8]


def test_a_lease_that_is_renewed_is_refused_by_the_name_of_its_owner(tmp_path: Path) -> None:
    held = lease(tmp_path, seconds=2)
    take(held)
    try:
        with pytest.raises(
            CheckpointInUseError, match=rf"{tmp_path} is in use by another kestrel run \(process \d+ on "
        ):
            # The second one watches for long enough that a busy machine renews within that time.
            take(lease(tmp_path, seconds=20))
    finally:
        held.release()


def test_a_lease_that_nobody_renews_ends(tmp_path: Path) -> None:
    dead = lease(tmp_path, seconds=3600)
    take(dead)
    heir = lease(tmp_path)
    [said] = take(heir)
    assert said.endswith("held the checkpoint last; waiting up to 0 s to see whether it lives")
    assert heir.number == 2
    heir.release()


def test_a_lease_that_another_has_taken_is_lost_and_leaves_the_new_one_alone(tmp_path: Path) -> None:
    lost = Event()
    frozen = lease(tmp_path, lose=lost.set)
    take(frozen)
    taken = tmp_path / "lease" / "2"
    taken.write_text(json.dumps({"process": 7, "host": "other"}), encoding="utf-8")
    assert lost.wait(60)
    with pytest.raises(CheckpointInUseError, match=r"another run has taken it \(process 7 on other\)"):
        frozen.release()
    assert json.loads(taken.read_text(encoding="utf-8")) == {"process": 7, "host": "other"}


class Away(PosixPath):
    """A folder that cannot be listed while `away` is set."""

    away = Event()
    raced = Event()
    """Another run creates each new file first."""

    def open(self, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if mode == "x" and self.raced.is_set():
            self.write_text(json.dumps({"process": 7, "host": "other"}), encoding="utf-8")
        return super().open(mode, *arguments, **named)

    def iterdir(self) -> Iterator[Any]:
        if self.away.is_set():
            raise OSError(errno.EIO, "the store is away")
        return super().iterdir()


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Away]:
    yield Away(tmp_path)
    Away.away.clear()
    Away.raced.clear()


def await_in(said: list[str], words: str) -> None:
    deadline = time.monotonic() + 60
    while not any(words in sentence for sentence in said):
        assert time.monotonic() < deadline, said
        time.sleep(0.01)


def test_an_owner_whose_store_was_away_takes_the_next_number(away: Away) -> None:
    said: list[str] = []
    held = lease(away, lose=lambda: said.append("lost"))
    held.take(said.append, Event())
    before = held.number
    away.away.set()
    await_in(said, "the store is away; the lease has ended, and is taken again when the store answers")
    away.away.clear()
    await_in(said, "had ended, and no other run has taken it: the run goes on")
    held.release()
    assert held.number > before
    newest = max(int(each.name) for each in (away / "lease").iterdir())
    found = json.loads((away / "lease" / str(newest)).read_text(encoding="utf-8"))
    assert (newest, found["number"], found["released"]) == (held.number, held.number, True)
    assert "lost" not in said


@pytest.mark.parametrize("meanwhile", [True, False], ids=["meanwhile", "at the same moment"])
def test_an_owner_whose_store_was_away_loses_to_a_run_that_took_the_next_number(away: Away, meanwhile: bool) -> None:
    said: list[str] = []
    held = lease(away, lose=lambda: said.append("lost"))
    held.take(said.append, Event())
    away.away.set()
    await_in(said, "the lease has ended")
    if meanwhile:
        taken = away / "lease" / str(held.number + 1)
        taken.write_text(json.dumps({"process": 7, "host": "other"}), encoding="utf-8")
    else:
        away.raced.set()
    away.away.clear()
    await_in(said, "lost")
    assert not any("the run goes on" in sentence for sentence in said)
    with pytest.raises(CheckpointInUseError, match=r"another run has taken it \(process 7 on other\)"):
        held.release()


def test_an_owner_knows_a_file_whose_creation_was_not_confirmed(tmp_path: Path) -> None:
    class Unconfirmed(PosixPath):
        """A folder whose file appears, although its creation seems to fail."""

        def open(self, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if mode == "x":
                with PosixPath(self).open("w", encoding="utf-8") as file:
                    file.write(json.dumps(held._owner))
                raise FileExistsError
            return PosixPath(self).open(mode, *arguments, **named)

    held = lease(Unconfirmed(tmp_path), seconds=3600)
    held.take(lambda _: None, Event())
    assert held.number == 1
    held.release()


def test_a_lease_whose_files_are_gone_is_lost(tmp_path: Path) -> None:
    lost = Event()
    held = lease(tmp_path, lose=lost.set)
    take(held)
    (tmp_path / "lease").rename(tmp_path / "gone")
    (tmp_path / "lease").write_text("no folder", encoding="utf-8")
    assert lost.wait(60)
    with pytest.raises(CheckpointInUseError, match="has lost its lease"):
        held.release()


def test_of_many_that_create_a_file_at_once_one_does(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        created = [*threads.map(lambda number: create_new(tmp_path / "1", str(number)), range(8))]
    assert sum(created) == 1
    assert (tmp_path / "1").read_text(encoding="utf-8") == str(created.index(True))


def test_a_stop_ends_the_waiting(tmp_path: Path) -> None:
    take(lease(tmp_path, seconds=3600))
    stop = Event()
    stop.set()
    since = time.monotonic()
    with pytest.raises(EngineError, match="stopped while it waited"):
        lease(tmp_path, seconds=3600).take(lambda _: None, stop)
    assert time.monotonic() - since < 60
