"""Documents as flat arrays of tokens, in memory and on disk."""

from supdocnade.corpus.documents import Documents
from supdocnade.corpus.shards import Corpus

__all__ = ["Corpus", "Documents"]
