"""Steps to operations of a pipeline."""
