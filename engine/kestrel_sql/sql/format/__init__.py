"""Formats syntax trees as canonical SQL text."""
