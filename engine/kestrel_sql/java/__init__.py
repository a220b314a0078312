"""Java's behaviour in Python: numbers as text, hash order, URIs, JSON, regular expressions and dates."""
