"""SupDocNADE: a neural topic model of words, annotations and classes."""

__version__ = "0.1.0.dev0"
