"""Records, the partitioner, and a broker in memory."""
