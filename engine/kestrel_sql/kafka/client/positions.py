"""Partitions of topics, and positions in them."""

from __future__ import annotations

from collections.abc import Mapping

Position = tuple[str, int]
"""A topic and one of its partitions."""

Offsets = Mapping[Position, int]
"""The offset of the next record in each partition."""
