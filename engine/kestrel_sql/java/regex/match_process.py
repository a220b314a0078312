"""Processes that match patterns for threads: in their main thread a signal ends a match that takes too long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import IO, cast

from kestrel_sql.systems import HAS_TIMER, at_fork_in_child, read_line

_PATIENCE_S = 5.0
"""How long a process may take for one answer: matching looks for signals between its attempts only."""

_MOST_IDLE = 4

_idle: list[_Helper] = []
"""Processes that wait for a call. Appending and taking are atomic."""

at_fork_in_child(_idle.clear)


def call_in_helper(name: str, arguments: Sequence[object]) -> tuple[str | None, object]:
    """Call a function of `calls`; the name of its failure's class and the message, or None and the result."""
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    answer = helper.ask(name, arguments)
    if answer is None:
        helper.close()
        return "TimeLimitError", f"the pattern takes more than {_PATIENCE_S:g} seconds for this value"
    if len(_idle) < _MOST_IDLE:
        _idle.append(helper)
    else:
        helper.close()
    failure, result = answer
    return failure, result


class _Helper:
    """One process; it ends with this one."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        self._in, self._out = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        # Starting takes longer than matching.
        read_line(self._out, None)

    def ask(self, name: str, arguments: Sequence[object]) -> tuple[str | None, object] | None:
        """The answer, None if the process does not give one in time."""
        with suppress(BrokenPipeError):
            self._in.write(json.dumps([name, list(arguments)]).encode() + b"\n")
            self._in.flush()
        line = read_line(self._out, _PATIENCE_S)
        return json.loads(line) if line else None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()
        self._process.wait()


def main() -> None:
    """Answer calls, a line of JSON each, until there are no more."""
    # This module is below those of the functions.
    time_limit = import_module("kestrel_sql.java.regex.time_limit")
    import_module("kestrel_sql.java.regex.timed_matching")
    sys.stdout.write("\n")
    sys.stdout.flush()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            # Without a timer nothing limits a call here: the process that asks ends this one.
            call = time_limit.LIMITED[name] if HAS_TIMER else time_limit.LIMITED[name].__wrapped__
            answer = [None, call(*arguments)]
        except ValueError as error:
            answer = [type(error).__name__, str(error)]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
