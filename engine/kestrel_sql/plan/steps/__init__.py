"""The published steps, one module per family; a published step is never edited."""
