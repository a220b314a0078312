"""Building blocks for function bodies in Spark SQL."""
