"""Analysis of queries: resolves names and checks the rules of the language."""
