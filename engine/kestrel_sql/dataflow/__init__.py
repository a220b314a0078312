"""A plan as a graph of steps over rows: what each step keeps, re-keys, computes and logs, however rows are carried."""
