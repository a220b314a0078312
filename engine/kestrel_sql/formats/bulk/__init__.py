"""Codecs that read or write a whole batch at a time, as Arrow columns."""
