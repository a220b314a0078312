"""A clock for the processes of a test, which the test moves: a library in front of the C library's clock."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HOUR_S = 3600
_SOURCE = Path(__file__).with_name("clock.c")


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of all processes that start with `environment`; monotonic clocks do not follow it."""

    library: Path
    shift: Path

    @staticmethod
    def build(folder: Path) -> Clock:
        """Compile the library into a folder; the clock starts at the real time."""
        clock = Clock(folder / "clock.so", folder / "clock")
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(clock.library), str(_SOURCE), "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
        clock.shift.write_bytes(struct.pack("l", 0))
        return clock

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self.library), "CLOCK_SHIFT": str(self.shift)}

    def move(self, seconds: int) -> None:
        """Set how far the clock is ahead of the real time; processes that run see it at once."""
        # The file keeps its place: the processes have mapped it.
        with self.shift.open("r+b") as file:
            file.write(struct.pack("l", seconds))
