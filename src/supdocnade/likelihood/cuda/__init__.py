"""Sums of the rows of a table that belong to the same word or node, without atomic additions."""
