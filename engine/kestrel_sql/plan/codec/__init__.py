"""The JSON codec of plans: reads strictly, writes ksqlDB's format."""
