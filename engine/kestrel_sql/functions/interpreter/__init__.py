"""Evaluates typed expressions in Python."""
