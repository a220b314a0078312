"""Operators that aggregate, without windows, in time windows and in session windows."""
