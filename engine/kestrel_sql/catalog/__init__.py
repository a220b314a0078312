"""The known streams, tables and custom types."""
