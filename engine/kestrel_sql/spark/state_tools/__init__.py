"""Stored state: the files of a query's checkpoint, read and rewritten without Spark."""
