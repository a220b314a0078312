"""Answers admin statements: SHOW, LIST, DESCRIBE, EXPLAIN, PRINT and ASSERT."""
