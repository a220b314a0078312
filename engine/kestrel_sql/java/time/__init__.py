"""Java's date and time patterns and zones."""
