"""The store of historic plans on disk."""
