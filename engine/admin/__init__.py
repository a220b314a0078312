"""What an engine says about itself, as rows with a schema."""
