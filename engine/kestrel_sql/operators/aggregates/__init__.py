"""Aggregations: without windows, in time windows and in session windows."""
