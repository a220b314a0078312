"""Connection settings, admin calls, ACLs and offsets."""
