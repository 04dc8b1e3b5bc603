"""Documents as flat arrays of tokens."""

from supdocnade.corpus.documents import Corpus

__all__ = ["Corpus"]
