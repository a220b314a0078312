"""Functions of text, JSON, regular expressions and URLs."""
