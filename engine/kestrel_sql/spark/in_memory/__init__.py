"""Runs pipelines over memory streams."""
