"""Kestrel plans ksqlDB statements and runs the plans on Spark Structured Streaming."""
