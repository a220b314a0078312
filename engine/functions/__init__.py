"""The functions of the language: signatures, documentation and bodies."""
