"""Prefix sums of word embeddings over ragged documents: what both output layers share."""
