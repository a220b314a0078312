"""Stateful levels: pack rows into pages, host operators, and read their state."""
