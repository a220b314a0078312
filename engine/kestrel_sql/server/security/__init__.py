"""Who may do what: users, tokens, roles, and the log of what was done."""
