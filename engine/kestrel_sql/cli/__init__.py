"""The command `kestrel`, one module per command."""
