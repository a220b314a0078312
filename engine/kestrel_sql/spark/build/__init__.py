"""Builds the steps of a plan as stages and stateful levels of a pipeline."""
