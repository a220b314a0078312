"""The state of one group, which all aggregating operators share.

A group is the list `[timestamp, non-aggregate columns, aggregate states]`, which a checkpoint can hold.
"""

from __future__ import annotations

from typing import Any

Group = list[Any]

TIMESTAMP, COLUMNS, STATES = 0, 1, 2
