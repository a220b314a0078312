"""Parses SQL text to syntax trees."""
