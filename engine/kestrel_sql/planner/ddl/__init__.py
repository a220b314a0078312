"""Plans CREATE, ALTER, DROP and custom types, with schema inference."""
