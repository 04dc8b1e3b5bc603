"""Tokens of a corpus on disk, alone or with annotations beside them in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from supdocnade.corpus.shards import Corpus
from supdocnade.corpus.tokens import (
    BLOCK,
    Digest,
    MemoryTokens,
    Rows,
    Tokens,
    TokenSource,
    in_blocks,
    places_of,
)


def _blocks(source: TokenSource) -> Iterator[tuple[Rows, Tokens]]:
    for rows_B in in_blocks(source.length_B, BLOCK):
        yield rows_B, source.gather(rows_B)


@dataclass(frozen=True, eq=False)
class StoredTokens:
    """Tokens that stay on disk until they are gathered.

    Made by `StoredTokens.of`. What is appended to the corpus later is not seen.
    """

    corpus: Corpus
    fingerprint: str
    """Of the corpus, as it was."""
    rows_B: Rows
    """Which documents of the corpus these are."""
    weighted: bool

    @classmethod
    def of(cls, corpus: Corpus) -> "StoredTokens":
        """Return the tokens of all documents of a corpus."""
        return cls(corpus, corpus.fingerprint(), np.arange(len(corpus)), corpus.fractional)

    @cached_property
    def length_B(self) -> NDArray[np.int64]:
        """Number of tokens of every document."""
        return self.corpus.length_B[self.rows_B]

    def gather(self, rows_B: Rows, order_N: NDArray[np.int64] | None = None) -> Tokens:
        """Return the tokens of the given documents, as `TokenSource` says."""
        ids_N, counts_N = self.corpus.read_tokens(self.rows_B[rows_B])
        weight_N = None
        if self.weighted:
            weight_N = np.ones(len(ids_N), np.float32)
            if counts_N is not None:
                parts_N = counts_N != 0
                some = counts_N[parts_N]
                weight_N[parts_N] = (some / np.ceil(some)).astype(np.float32)
        tokens = Tokens(ids_N, weight_N)
        return tokens if order_N is None else tokens.ordered(order_N)

    def blocks(self) -> Iterator[tuple[Rows, Tokens]]:
        """Yield all documents in their sequence, some at a time, with their tokens."""
        return _blocks(self)

    def take(self, rows_B: Rows) -> "StoredTokens":
        """Return the given documents, in the given order; nothing is read."""
        return replace(self, rows_B=self.rows_B[rows_B])

    def below(self, n_words: int) -> "StoredTokens":
        """Return all of it: what is stored are visual words."""
        assert n_words >= self.corpus.n_words, "stored words are not told apart"
        return self

    def feed(self, digest: Digest) -> None:
        """Put the fingerprint of the corpus and the chosen documents into a digest."""
        digest.update(self.fingerprint.encode())
        digest.update(np.ascontiguousarray(self.rows_B).data)


@dataclass(frozen=True, eq=False)
class JoinedTokens:
    """Stored visual words, and after those of every document its annotation words."""

    visual: StoredTokens
    annotations: MemoryTokens
    """Their ids are those of the joint vocabulary."""

    @cached_property
    def length_B(self) -> NDArray[np.int64]:
        """Number of tokens of every document."""
        return self.visual.length_B + self.annotations.length_B

    @property
    def weighted(self) -> bool:
        """Whether tokens carry weights."""
        return self.visual.weighted or self.annotations.weighted

    def gather(self, rows_B: Rows, order_N: NDArray[np.int64] | None = None) -> Tokens:
        """Return the tokens of the given documents, as `TokenSource` says."""
        words, tags = self.visual.gather(rows_B), self.annotations.gather(rows_B)
        n_words_B = self.visual.length_B[rows_B]
        n_tags_B = self.annotations.length_B[rows_B]
        length_B = n_words_B + n_tags_B
        start_B = np.cumsum(length_B) - length_B
        words_N = places_of(start_B, n_words_B)
        tags_N = places_of(start_B + n_words_B, n_tags_B)
        ids_N = np.empty(len(words_N) + len(tags_N), np.int32)
        ids_N[words_N], ids_N[tags_N] = words.ids_N, tags.ids_N
        weight_N = None
        if self.weighted:
            weight_N = np.ones(len(ids_N), np.float32)
            for places_N, part in ((words_N, words), (tags_N, tags)):
                if part.weight_N is not None:
                    weight_N[places_N] = part.weight_N
        tokens = Tokens(ids_N, weight_N)
        return tokens if order_N is None else tokens.ordered(order_N)

    def blocks(self) -> Iterator[tuple[Rows, Tokens]]:
        """Yield all documents in their sequence, some at a time, with their tokens."""
        return _blocks(self)

    def take(self, rows_B: Rows) -> "JoinedTokens":
        """Return the given documents, in the given order; nothing is read from disk."""
        return JoinedTokens(self.visual.take(rows_B), self.annotations.take(rows_B))

    def below(self, n_words: int) -> "StoredTokens":
        """Return the visual words alone."""
        # Documents carry weights or not as a whole, whichever of their words are looked at.
        return replace(self.visual.below(n_words), weighted=self.weighted)

    def feed(self, digest: Digest) -> None:
        """Put both parts into a digest."""
        self.visual.feed(digest)
        self.annotations.feed(digest)
