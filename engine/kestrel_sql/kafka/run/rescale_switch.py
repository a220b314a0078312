"""Puts rescaled states in the place of the old ones, also after a kill: every start that holds the lock ends it."""

from __future__ import annotations

import shutil
from pathlib import Path

from kestrel_sql.kafka.run.layout import MANIFEST, QUERIES, READY


def finish_rescale(folder: Path) -> None:
    """Move the states that are ready to their place; does nothing without any. The lock must be held."""
    ready = folder / READY
    if not ready.is_dir():
        return
    queries = ready / QUERIES
    for fresh in sorted(queries.iterdir()) if queries.is_dir() else ():
        old = folder / QUERIES / fresh.name
        if old.exists():
            shutil.rmtree(old)
        fresh.rename(old)
    manifest = ready / MANIFEST
    if manifest.exists():
        manifest.replace(folder / MANIFEST)
    shutil.rmtree(ready)
