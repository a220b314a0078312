"""Tests against a broker. They are a package so that fixtures of its scope end with its last test."""
