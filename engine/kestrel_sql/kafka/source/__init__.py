"""What a query reads: one topic, or several merged by timestamp."""
