"""Typed expressions evaluated in Python."""
