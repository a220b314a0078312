"""Runs that reuse a JVM with a started Spark, which an earlier run left behind."""
