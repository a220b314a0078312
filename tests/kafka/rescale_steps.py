"""Rescales a checkpoint on a store and ends itself, or waits for its standard input, at a step on the way.

python -m tests.kafka.rescale_steps URI kill|wait STEP NAME=VALUE ...

STEPS names the steps.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.connector.store import open_store_alone
from kestrel_sql.kafka.run import manifest, rescaling
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.spark.state.checkpoint_path import StorePath
from kestrel_sql.spark.state_tools import rescale

STEPS = ("put", "prove", "switch", "remove", "end")
"""Before the copy is put on the store, it is proved, the manifest names it, and the old states go; and after that."""

PARTITIONS, PAGES = 3, 7


def main(uri: str, action: str, wanted: str, *settings: str) -> None:
    """Rescale as `kestrel state rescale` does, up to the step."""

    def reached(step: str) -> None:
        if step == wanted:
            sys.stdout.write(step + "\n")
            sys.stdout.flush()
            if action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            sys.stdin.read()

    def before(step: str, owner: Any, name: str) -> None:
        called: Callable[..., Any] = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            reached(step)
            return called(*arguments, **named)

        setattr(owner, name, call)

    before("put", StorePath, "put")
    before("prove", rescale, "_prove")
    save = CheckpointFolder.save

    def switch(*arguments: Any) -> None:
        reached("switch")
        save(*arguments)
        # Before it, the command removes what others have left.
        before("remove", manifest, "remove_folder")

    CheckpointFolder.save = switch  # type: ignore[method-assign]
    with open_store_alone(uri, dict(setting.split("=", 1) for setting in settings)) as folder:
        rescaling.rescale_checkpoint(folder, FUNCTIONS, partitions=PARTITIONS, pages=PAGES, wanted=None, say=print)
        reached("end")


if __name__ == "__main__":
    main(*sys.argv[1:])
