"""The known sources and custom types."""
