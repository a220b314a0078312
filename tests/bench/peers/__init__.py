"""The same jobs as users of other engines write them, for benchmarks."""
