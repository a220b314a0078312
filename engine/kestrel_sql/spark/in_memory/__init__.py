"""Pipelines over memory streams."""
