"""The state that a query of ksqlDB leaves on the broker, as the state of operators."""
