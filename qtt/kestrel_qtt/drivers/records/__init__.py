"""Cases of input and output records: planned one by one, run in fused rounds."""
