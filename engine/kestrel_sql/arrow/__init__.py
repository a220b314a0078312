"""SQL types and values in Arrow."""
