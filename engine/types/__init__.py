"""What SQL types and key/value schemas are, and which convert to which."""
