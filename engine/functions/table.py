"""The functions of the language; a new family is one more module in this list."""

from __future__ import annotations

from engine.functions.registry import Registry, collect

FUNCTIONS: Registry = collect()
