"""Progress, summaries and reports of a run."""
