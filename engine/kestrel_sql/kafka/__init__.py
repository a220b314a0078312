"""Kestrel on a Kafka broker: clients, sources, the exactly-once sink and the run of an application."""
