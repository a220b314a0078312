"""Where the command `qtt` begins: without the packages of the extra it says what to install."""

from __future__ import annotations

import gc
import io
import os
import sys

from kestrel_qtt.extra import missing

INTERRUPTED = 130


def main() -> int:
    """Run the command with the arguments of the process, and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A string may hold half of a surrogate pair, which no encoding has.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Imports make many objects that stay; looking through them for garbage takes a tenth of the time.
    gc.disable()
    try:
        from kestrel_qtt.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.stderr.write(f"qtt: {missing(error)}\n")
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    gc.freeze()
    gc.enable()
    # Cases stay until the last one is judged, and looking through them each time takes a twentieth of the time.
    gc.set_threshold(20_000)
    code = run()
    if code == INTERRUPTED:
        from kestrel_qtt.drivers.open import end_jvms

        end_jvms()
        # Groups of cases may still run in threads, for which Python would wait.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
