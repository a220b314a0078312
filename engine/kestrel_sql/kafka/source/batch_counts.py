"""How many records a batch read, from Spark's report on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

READ = "read"
"""The metric of a batch that counts its records, where Spark counts what the source made of them."""


_Source = TypedDict("_Source", {"startOffset": object, "endOffset": object}, total=False)  # noqa: UP013 - Spark's names
Report = TypedDict(  # noqa: UP013 - Spark's names
    "Report",
    {
        "batchId": int,
        "durationMs": Mapping[str, int],
        "sources": Sequence[_Source],
        "numInputRows": int | None,
        "observedMetrics": Mapping[str, Mapping[str, int]] | None,
    },
    total=False,
)
"""What Spark says of a batch, as far as we read it."""


def records_of(report: Report) -> int:
    """Return the records that the batch of a report read."""
    observed = report.get("observedMetrics") or {}
    return int((observed[READ][READ] if READ in observed else report.get("numInputRows")) or 0)
