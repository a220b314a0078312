"""Bytes of topics to rows, and back, in Arrow."""
