"""Mutation testing: change the statements of cases one detail at a time, and see whether a case notices."""
