"""Speed, always as a ratio to a named baseline in the same run."""
