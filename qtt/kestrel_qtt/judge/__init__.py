"""Judges compare what came out of a case with what the case expects."""
