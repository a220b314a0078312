"""The command `qtt`, one module per command."""
