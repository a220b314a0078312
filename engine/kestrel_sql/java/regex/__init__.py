"""Java's regular expressions on Python's `re`."""
