"""Stateful operators as pure functions over records and a key-value state."""
