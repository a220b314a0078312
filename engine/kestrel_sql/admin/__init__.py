"""Statements that ask about the engine: SHOW, LIST, DESCRIBE, EXPLAIN, PRINT and ASSERT."""
