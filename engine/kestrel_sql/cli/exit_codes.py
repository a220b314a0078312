"""The exit codes of the command `kestrel`."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the command tells its caller."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    CHANGES = 2
    """Of `kestrel plan`: something is to be done."""
    INTERNAL = 3
    INTERRUPTED = 130
