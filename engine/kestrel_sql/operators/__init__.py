"""Stateful operators as pure functions over rows and a key-value state; nothing here knows Spark."""
