"""Carries the dataflow of queries in this Python process, without a JVM."""
