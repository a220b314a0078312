"""Analysed queries to steps."""
