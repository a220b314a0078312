"""Functions of dates, times and timestamps."""
