"""What both kinds of engine have in common behind the HTTP API."""
