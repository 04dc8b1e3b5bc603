"""Benchmarks: speed relative to a named baseline that is measured in the same run."""
