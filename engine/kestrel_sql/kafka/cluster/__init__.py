"""Packaging of Kestrel for executors on other machines."""
