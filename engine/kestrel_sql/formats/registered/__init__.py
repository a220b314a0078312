"""Formats with a schema registry: message framing, schema languages, and the columns of a schema."""
