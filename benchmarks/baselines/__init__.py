"""Baselines of the benchmarks. They do not change, so that ratios stay comparable over time."""
