"""Where the command `qtt` begins: without the packages of the extra it says what to install."""

from __future__ import annotations

import sys

from kestrel_qtt.extra import missing


def main() -> int:
    """Run the command with the arguments of the process, and return its exit code."""
    try:
        from kestrel_qtt.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.stderr.write(f"qtt: {missing(error)}\n")
        return 2
    return run()
