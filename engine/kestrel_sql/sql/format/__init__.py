"""Syntax trees back to canonical text."""
