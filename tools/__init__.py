"""Programs for maintainers, run from a clone."""
