"""Tests of the project; what they share is imported as `tests.…`."""
