"""The Spark session, its JVM and its Python workers."""
