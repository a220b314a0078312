"""Lengths of the units of time in ms."""

from __future__ import annotations

from collections.abc import Mapping

DAY_MS = 86_400_000

FIRST_DAY, LAST_DAY = -(2**63 // DAY_MS), 2**63 // DAY_MS
"""The days of which midnight is a TIMESTAMP."""

UNIT_MS: Mapping[str, int] = {
    "DAYS": DAY_MS,
    "HOURS": 3_600_000,
    "MINUTES": 60_000,
    "SECONDS": 1_000,
    "MILLISECONDS": 1,
}
"""The units of an interval by their SQL keyword."""
