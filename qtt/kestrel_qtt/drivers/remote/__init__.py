"""Cases on a server that is running, of ksqlDB or of Kestrel, under names of their own."""
