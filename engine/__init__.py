"""The Kestrel engine: streaming SQL to versioned plans, run on Spark Structured Streaming."""
