"""Kestrel against a real Kafka broker: connection, topics, the exactly-once sink, a broker to try things out."""
