"""Stateful operators: pure functions over rows and state that do not know Spark."""
