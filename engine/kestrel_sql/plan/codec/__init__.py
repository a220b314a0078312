"""Plans as JSON, read strictly and written in ksqlDB's format."""
