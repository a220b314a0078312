"""Names the entries of a checkpoint folder."""

from __future__ import annotations

from typing import Final

MANIFEST: Final = "manifest.json"
"""The file with the queries, their plans and their topics."""

LOCK: Final = "lock"
"""The file that a run locks while it uses a local folder."""

QUERIES: Final = "queries"
"""The folder of Spark's checkpoints, one for each query that was not rescaled."""

RESCALED: Final = "rescaled"
"""The folder of Spark's checkpoints that `kestrel state rescale` wrote, below the number of the rescaling.

The manifest says which of them count.
"""
