"""An engine over topics in memory behind the HTTP API."""
