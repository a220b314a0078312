"""Statements that are answered: push and pull queries, INSERT VALUES, and whatever asks about the engine."""
