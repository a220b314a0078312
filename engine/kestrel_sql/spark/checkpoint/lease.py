"""The lock of a checkpoint where there is no `flock`: a lease that its owner renews (docs/adr/0034).

Each owner creates a file of its own, `lease/N`, which must not exist before; N is the fencing number. The owner of the
highest number holds the checkpoint. Whoever wants it watches the file by its own clock: one that stays the same for the
whole lease belongs to an owner that is dead or frozen. An owner that could not renew its file for so long, because the
store was away or the process was frozen, takes the next number itself, unless another was first.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import msgspec

from kestrel_sql.errors import CheckpointInUseError, EngineError
from kestrel_sql.spark.checkpoint.batch_log import numbered
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, create_new, write_whole

LEASE_S = 20.0
_RENEWALS = 5
"""Renewals within a lease."""

_KEPT = 5
"""The files of former owners that stay, for people."""

_USE_ANOTHER = "stop that one first, or use another checkpoint for this one"


class Lease(msgspec.Struct, kw_only=True):
    """A lease on a checkpoint of `seconds`; `lose` is called when another has taken it, or its files were deleted."""

    checkpoint: CheckpointPath
    lose: Callable[[], None]
    seconds: float = LEASE_S
    number: int = 0
    lost: str = ""
    """Why the lease was lost, empty unless it was."""
    _owner: Mapping[str, Any] = msgspec.field(default_factory=lambda: _owner())
    _renewed: int = 0
    _say: Callable[[str], None] = lambda _: None
    _closed: Event = msgspec.field(default_factory=Event)
    _renewing: Thread | None = None

    def take(self, say: Callable[[str], None], stop: Event) -> None:
        """Take the lease, and renew it until it is released; wait for a former owner to show whether it lives.

        Raises:
            CheckpointInUseError: another process holds the lease, or took it at the same moment.
            OSError: the store does not answer.
        """
        self._say = say
        self._folder.mkdir(parents=True, exist_ok=True)
        newest = max(numbered(self._folder), default=0)
        if newest:
            self._await_end(newest, say, stop)
        if not self._create(newest + 1):
            raise self._in_use(self._holder(self._newest()))
        for number in numbered(self._folder)[: -_KEPT - 1]:
            self._file(number).unlink()
        self._renewing = Thread(target=self._renew, name="renewing the lease", daemon=True)
        self._renewing.start()

    def release(self) -> None:
        """Let others take the lease at once.

        Raises:
            CheckpointInUseError: the lease was lost before.
        """
        self._closed.set()
        if self._renewing is not None:
            self._renewing.join()
        self._check_lost()
        try:
            write_whole(self._file(self.number), self._text(self.number, released=True))
        except OSError:
            # It ends by itself: the next owner waits for it.
            return

    def check(self) -> None:
        """Ask the store whether the lease is held still.

        Raises:
            CheckpointInUseError: it is not.
            OSError: the store does not answer.
        """
        newest = self._newest()
        if not newest or not self._is_ours(newest):
            self._lose_to(newest)
        self._check_lost()

    def _check_lost(self) -> None:
        if self.lost:
            raise CheckpointInUseError(
                f"the run has lost its lease on the checkpoint {self.checkpoint}: {self.lost}",
                hint="nothing is lost, its writers are fenced: see which run holds it, or run the same command again",
            )

    @property
    def _folder(self) -> CheckpointPath:
        return self.checkpoint / "lease"

    def _file(self, number: int) -> CheckpointPath:
        return self._folder / str(number)

    def _newest(self) -> int:
        return max(numbered(self._folder), default=0)

    def _create(self, number: int) -> bool:
        """Take a number; return whether it is ours and the highest."""
        # The answer to a first attempt may have been lost.
        if not create_new(self._file(number), self._text(number)) and not self._is_ours(number):
            return False
        self.number = number
        return self._newest() == number

    def _is_ours(self, number: int) -> bool:
        return bool(self._holder(number).get("owner") == self._owner["owner"])

    def _await_end(self, number: int, say: Callable[[str], None], stop: Event) -> None:
        """Return when the owner of a number has released its lease or let it end."""
        first = self._holder(number)
        since = time.monotonic()
        if not first.get("released"):
            say(f"{_name(first)} held the checkpoint last; waiting up to {self.seconds:.0f} s to see whether it lives")
        while True:
            found = self._holder(number)
            if found.get("released"):
                return
            if found != first or self._newest() != number:
                raise self._in_use(found)
            if time.monotonic() - since > self.seconds:
                return
            if stop.wait(self.seconds / _RENEWALS / 4):
                raise EngineError("stopped while it waited for the checkpoint")

    def _holder(self, number: int) -> Mapping[str, object]:
        """What the file of a lease says; a file that is being written says nothing yet."""
        try:
            found = json.loads(self._file(number).read_text(encoding="utf-8"))
        except (ValueError, FileNotFoundError):
            return {}
        return found if isinstance(found, dict) else {}

    def _in_use(self, holder: Mapping[str, object]) -> CheckpointInUseError:
        return CheckpointInUseError(
            f"the checkpoint {self.checkpoint} is in use by another kestrel run ({_name(holder)})", hint=_USE_ANOTHER
        )

    def _text(self, number: int, *, released: bool = False) -> str:
        """The file's text; the time is for people, nobody compares it with a clock."""
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.seconds))
        state = {"number": number, "renewed": self._renewed, "until": until, "released": released}
        return json.dumps({**self._owner, **state})

    def _renew(self) -> None:
        last = time.monotonic()
        is_away = False
        while not self._closed.wait(self.seconds / _RENEWALS):
            try:
                newest = self._newest()
                # The store may have taken long to answer, and a process that was frozen comes here late.
                begun = time.monotonic()
                is_late = begun - last > self.seconds
                if not self._is_held(newest, is_late=is_late):
                    return
            except OSError as error:
                if not is_away and time.monotonic() - last > self.seconds:
                    self._say(f"{error.strerror}; the lease has ended, and is taken again when the store answers")
                    is_away = True
                continue
            if is_late:
                self._say(f"the lease on {self.checkpoint} had ended, and no other run has taken it: the run goes on")
            last, is_away = begun, False

    def _is_held(self, newest: int, *, is_late: bool) -> bool:
        """Renew the lease, or take it again if that is late; return whether it is ours still."""
        is_ours = newest == self.number or (newest > 0 and self._is_ours(newest))
        if is_ours and not is_late:
            self.number = newest
            self._renewed += 1
            write_whole(self._file(newest), self._text(newest))
        if is_ours and (not is_late or self._create(newest + 1)):
            return True
        self._lose_to(self._newest())
        return False

    def _lose_to(self, newest: int) -> None:
        self.lost = f"another run has taken it ({_name(self._holder(newest))})" if newest else "its file was deleted"
        self.lose()


def _owner() -> Mapping[str, object]:
    return {"process": os.getpid(), "host": os.uname().nodename, "owner": uuid4().hex}


def _name(holder: Mapping[str, object]) -> str:
    return f"process {holder['process']} on {holder['host']}" if {"process", "host"} <= holder.keys() else "starting"
