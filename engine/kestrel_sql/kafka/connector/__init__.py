"""Spark's Kafka connector and the archive of Spark's classes, fetched before the first run."""
