"""Evaluates bound expressions over columns."""
