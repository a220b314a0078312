"""Push and pull queries, and a whole engine in one process."""
