"""SQL types, schemas, and which types convert to which."""
