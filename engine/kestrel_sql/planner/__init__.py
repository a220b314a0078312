"""Statements to plans: names, types, keys and validation."""
