"""Types for every node of an expression, with overloads chosen and conversions made explicit."""
