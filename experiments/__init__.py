"""Experiments on real data, whose results are committed."""
