"""Query-translation tests: cases as data, run against the engine."""
