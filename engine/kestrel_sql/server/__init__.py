"""The server: ksqlDB's HTTP API over an engine, a page to look at it, and metrics."""
