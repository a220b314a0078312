"""Formats with a schema registry: the wire framing, schema languages, and columns of a schema."""
