"""Query-translation tests (QTT): cases are data, and every case runs against the engine."""
