"""Codecs that read or write a whole batch at once, as Arrow columns."""
