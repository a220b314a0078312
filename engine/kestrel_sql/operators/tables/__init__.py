"""Operators on tables: previous rows, queryable rows and the stream time of tombstones."""
