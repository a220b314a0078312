"""How Spark's JVMs and their Python processes find each other.

By sockets in a folder, which have no port (docs/adr/0021).
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache

from kestrel_sql.spark.runtime.environment import is_on_this_machine

_ENABLED = "spark.python.unix.domain.socket.enabled"
_FOLDER = "spark.python.unix.domain.socket.dir"

_EVERYWHERE = "/tmp"
"""Where executors on other machines have theirs, and where a folder is short enough; YARN's are longer."""

_PREFIX = "kestrel-"
_LONGEST = 104
"""How many bytes the path of a socket may have on every system; Spark refuses folders that leave less for a name."""

_ADDED = len(f"/{_PREFIX}12345678") + len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
"""What the name of our folder and that of Spark's socket add to the folder for temporary files."""


def socket_settings(master: str) -> dict[str, str]:
    """The settings of Spark by which it opens no port for its Python processes.

    The port that a stateful operator's worker asks for its state takes the first who connects, whoever that is, and
    nobody after that: whoever looks there for something else leaves the worker without an answer, and the query without
    an end.
    """
    return {_ENABLED: "true", _FOLDER: _own_folder() if is_on_this_machine(master) else _EVERYWHERE}


@cache
def _own_folder() -> str:
    """A folder that nobody else may enter, and that is gone when this process has ended."""
    usual = tempfile.gettempdir()
    is_short = len(os.fsencode(usual)) + _ADDED <= _LONGEST
    found = tempfile.mkdtemp(prefix=_PREFIX, dir=usual if is_short else _EVERYWHERE)
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found
