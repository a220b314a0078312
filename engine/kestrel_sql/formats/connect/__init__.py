"""Kafka Connect's schema model, which AVRO, JSON_SR and PROTOBUF share."""
