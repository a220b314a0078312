"""The planner: turns statements into plans, and validates names, types and keys."""
