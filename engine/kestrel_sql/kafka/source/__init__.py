"""Sources of queries: one topic, or several topics merged by timestamp."""
