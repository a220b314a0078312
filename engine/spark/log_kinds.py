"""Kinds of entries of the processing log (`spec/errors.md` 8); the last one stops the query."""

from __future__ import annotations

DESERIALIZATION, PROCESSING, PRODUCTION, SERIALIZATION, FATAL = range(5)
