"""The HTTP side: routes, framing, limits; knows engines by the protocol `Service` only."""
