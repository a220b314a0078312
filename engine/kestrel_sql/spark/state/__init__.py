"""Stateful levels: packing rows into pages, hosting operators, reading their state."""
