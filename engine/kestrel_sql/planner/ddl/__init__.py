"""CREATE, ALTER, DROP and types, with schema inference."""
