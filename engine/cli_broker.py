"""`kestrel broker`: a Kafka broker to try things out."""
