"""The steps of a plan, one module per family; a published step never changes."""
