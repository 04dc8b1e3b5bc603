"""Training of a network on a corpus."""
