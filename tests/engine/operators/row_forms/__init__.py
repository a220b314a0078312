"""Operators in their plainest form, row by row, as the tests of those over whole batches want to know what is right."""
