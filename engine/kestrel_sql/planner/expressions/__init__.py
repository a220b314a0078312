"""Expressions in the planner: types, literals, coercion and rewriting."""
