"""Types, literals and coercion of expressions, as the planner needs them."""
