"""Declares functions, chooses their overloads, types calls and interprets expressions."""
