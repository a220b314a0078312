"""The session: executes statements against a catalog and keeps the plans of persistent queries."""
