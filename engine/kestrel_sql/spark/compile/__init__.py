"""Typed expressions to Spark SQL."""
