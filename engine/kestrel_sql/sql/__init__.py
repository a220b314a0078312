"""SQL text to syntax trees, and back."""
