"""Where the command `qtt` begins: without the packages of the extra it says what to install."""

from __future__ import annotations

import os
import sys

from kestrel_qtt.extra import missing

INTERRUPTED = 130


def main() -> int:
    """Run the command with the arguments of the process, and return its exit code."""
    try:
        from kestrel_qtt.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.stderr.write(f"qtt: {missing(error)}\n")
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    code = run()
    if code == INTERRUPTED:
        # Groups of cases may still run in threads, for which Python would wait.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
