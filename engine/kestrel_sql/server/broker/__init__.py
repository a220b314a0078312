"""An engine over the topics of a Kafka broker behind the HTTP API."""
