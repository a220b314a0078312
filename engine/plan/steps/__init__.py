"""The published steps, one module per family; never edited once released."""
