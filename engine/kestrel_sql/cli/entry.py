"""Where the command `kestrel` begins, before its modules are imported."""

from __future__ import annotations

import io
import os
import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command with the arguments of the process, and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A string may hold half of a surrogate pair, which no encoding has.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from kestrel_sql.cli.main import main as run

        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        from kestrel_sql.spark.runtime.interrupted import end_jvms

        end_jvms()
        # Spark may still be starting in a thread, for which Python would wait.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
