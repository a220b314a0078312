"""Carries the graphs of queries on Spark."""
