"""Compares what two systems write for the same queries, while both run."""
