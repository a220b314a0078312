"""Records of topics, and topics in memory."""
