"""The formats that the engine knows: a module for each, with its record `FORMAT`."""
