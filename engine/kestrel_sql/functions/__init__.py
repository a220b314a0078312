"""Functions: how they are declared, chosen, typed and interpreted."""
