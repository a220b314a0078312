"""Runs an application against a broker: statements, queries, progress and resume."""
