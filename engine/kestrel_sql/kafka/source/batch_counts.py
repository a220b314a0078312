"""How many records a batch read, from Spark's report on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READ = "read"
"""The metric of a batch that counts its records, where Spark counts what the source made of them."""


def records_of(report: Mapping[str, Any]) -> int:
    """Return the records that the batch of a report read."""
    observed = report.get("observedMetrics") or {}
    return int((observed[READ][READ] if READ in observed else report.get("numInputRows")) or 0)
