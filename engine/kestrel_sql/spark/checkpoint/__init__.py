"""Checkpoint metadata, and the check whether a query may resume from a checkpoint."""
