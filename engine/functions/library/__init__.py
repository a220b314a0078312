"""The shipped functions, one module per family."""
