"""The schema registry: in memory and by URL."""
