"""Reports which statements of a ksqlDB installation run on Kestrel."""
