"""Compiles typed expressions to Spark SQL."""
