"""Converts, compares and computes with Python values as Java does, and limits their size."""
