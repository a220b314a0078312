"""An engine over topics in memory behind the protocol `Service`."""
