"""Types expressions: chooses overloads and makes implicit conversions explicit."""
