"""A single-node Kafka broker for trials and tests."""
