"""Puts rescaled states in the place of the old ones, also after a kill: every start that holds the lock ends it."""

from __future__ import annotations

import shutil
from pathlib import Path

PARTIAL, READY = "rescale.partial", "rescale.ready"
"""The folder of new states while they are written, and once all of them are written and proved.

One rename makes the first the second. From then on the new states count; before, the old ones do.
"""


def finish_rescale(folder: Path) -> None:
    """Move the states that are ready to their place; does nothing without any. The lock must be held."""
    ready = folder / READY
    if not ready.is_dir():
        return
    queries = ready / "queries"
    for fresh in sorted(queries.iterdir()) if queries.is_dir() else ():
        old = folder / "queries" / fresh.name
        if old.exists():
            shutil.rmtree(old)
        fresh.rename(old)
    manifest = ready / "manifest.json"
    if manifest.exists():
        manifest.replace(folder / "manifest.json")
    shutil.rmtree(ready)
