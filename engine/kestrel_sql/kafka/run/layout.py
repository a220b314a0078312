"""Names the entries of a checkpoint folder."""

from __future__ import annotations

from typing import Final

MANIFEST: Final = "manifest.json"
"""The file with the queries, their plans and their topics."""

LOCK: Final = "lock"
"""The file that a run locks while it uses a local folder."""

QUERIES: Final = "queries"
"""The folder of Spark's checkpoints, one for each query."""

PARTIAL: Final = "rescale.partial"
"""The folder of new states while `kestrel state rescale` writes them."""

READY: Final = "rescale.ready"
"""The folder of new states once all of them are written and proved.

One rename makes `PARTIAL` this folder. From then on the new states count; before, the old ones do.
"""
