"""Java's behaviour in Python: number formatting, hash order, URIs, JSON, regular expressions, dates and times."""
