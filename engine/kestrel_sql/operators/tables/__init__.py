"""Table stores: previous rows, queryable rows and stream time."""
