"""Statements in; catalog, plans and persistent queries out."""
