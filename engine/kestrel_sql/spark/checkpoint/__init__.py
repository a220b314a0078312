"""What a checkpoint says about itself, and whether a query may resume from it."""
