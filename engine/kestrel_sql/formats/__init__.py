"""Serialisation formats: bytes of keys and values to rows, and back."""
