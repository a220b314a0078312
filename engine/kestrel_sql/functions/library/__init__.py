"""The functions of the language, one module per family."""
