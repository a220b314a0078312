"""Stages, levels, sources and sinks put together as one Spark pipeline."""
