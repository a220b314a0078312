"""The steps with state, which are built alike for every carrier."""
