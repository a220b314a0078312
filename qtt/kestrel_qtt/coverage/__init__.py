"""What cases and tests reach: rules of the specification, functions, steps and formats."""
