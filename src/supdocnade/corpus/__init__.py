"""Documents as arrays of tokens, in memory and on disk."""

from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.documents import Documents

__all__ = ["Corpus", "Documents"]
