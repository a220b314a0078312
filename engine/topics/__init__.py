"""The broker seam: reading and writing the records of a topic."""
