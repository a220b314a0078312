"""Functions of arrays, maps, headers and lambdas, and table functions."""
