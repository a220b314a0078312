"""How each wire format decodes and encodes keys and values."""
