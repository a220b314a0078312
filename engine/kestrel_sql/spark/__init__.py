"""Plans to Spark SQL, and the Spark pipelines that run it."""
