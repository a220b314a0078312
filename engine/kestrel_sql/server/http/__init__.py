"""The HTTP side: routes, framing, limits."""
