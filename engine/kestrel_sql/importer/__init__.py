"""The report of what in a ksqlDB installation runs on Kestrel."""
