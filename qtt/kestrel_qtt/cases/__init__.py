"""Case files: what a case is, how files are found, read, validated and expanded."""
