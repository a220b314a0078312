"""Plans to Spark SQL text, and the running of it."""
