"""Relations of a query group, and the stages of Spark SQL between two stateful levels."""
