"""Documents as a network is trained on them: tokens, with labels and weights where there are some.

The tokens may lie in memory or on disk (`corpus/tokens.py`); nothing here depends on which.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from supdocnade.checks import check_shape
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.tokens import (
    BLOCK,
    Digest,
    MemoryTokens,
    Rows,
    Tokens,
    TokenSource,
    canonical_counts,
    in_blocks,
    places_of,
)
from supdocnade.errors import InvalidArgument

# Tokens of a corpus on disk, alone or with annotations beside them in memory.


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


NO_LABEL = -1
"""Stands for a missing label within documents, which estimators make; users have None or NaN."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Documents:
    """Documents over a joint vocabulary of visual words and annotation words.

    Made by `Documents.from_counts`.
    """

    tokens: TokenSource
    """Ids below `n_visual_words` are visual words, the others annotation words."""
    n_visual_words: int
    n_annotation_words: int
    label_B: NDArray[np.int64]
    """Class numbers, `NO_LABEL` where the class is not known."""
    n_classes: int
    document_weight_B: NDArray[np.float32] | None = field(default=None)
    """What multiplies a document's part of the objective; None: all ones."""

    @classmethod
    def from_counts(
        cls,
        counts: Any,
        *,
        annotations: Any = None,
        annotation_mask: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        n_classes: int = 0,
        document_weight: ArrayLike | None = None,
    ) -> "Documents":
        """Put documents together from counts.

        A count x becomes ceil(x) tokens of weight x / ceil(x): whole counts are exact.

        Parameters
        ----------
        counts : (documents, visual words) sparse or dense, finite and not negative; or a `Corpus`,
            whose tokens stay on disk.
        annotations : (documents, annotation words) sparse or dense; None if there are none.
        annotation_mask : (documents,) false where the annotations are not known.
        labels : (documents,) class numbers below `n_classes`, `NO_LABEL` where not known.
        document_weight : (documents,) finite and not negative.

        >>> documents = Documents.from_counts([[2, 0, 1], [0, 0, 1.5]], annotations=[[1], [0]])
        >>> documents.tokens.gather(np.array([0, 1])).ids_N.tolist(), documents.length_B.tolist()
        ([0, 0, 2, 3, 2, 2], [4, 2])
        >>> documents.tokens.gather(np.array([1])).weight_N.tolist()
        [0.75, 0.75]
        """
        if annotation_mask is not None and annotations is None:
            raise InvalidArgument("annotation_mask needs annotations, got none.")
        matrix = counts if isinstance(counts, Corpus) else canonical_counts("counts", counts)
        n_documents, n_visual_words = matrix.shape
        tags = None
        if annotations is not None:
            if annotation_mask is not None:
                annotations = _only_known(annotations, annotation_mask, n_documents)
            tags = canonical_counts("annotations", annotations)
            check_shape("annotations", tags.shape[:1], (n_documents,))
        return cls(
            tokens=_tokens(matrix, tags),
            n_visual_words=n_visual_words,
            n_annotation_words=0 if tags is None else tags.shape[1],
            label_B=_labels(labels, n_documents, n_classes),
            n_classes=n_classes,
            document_weight_B=_weights(document_weight, n_documents),
        )

    def __len__(self) -> int:
        """B, the number of documents."""
        return len(self.label_B)

    @property
    def n_words(self) -> int:
        """K, the size of the joint vocabulary."""
        return self.n_visual_words + self.n_annotation_words

    @property
    def length_B(self) -> NDArray[np.int64]:
        """Number of tokens of every document."""
        return self.tokens.length_B

    @cached_property
    def size_B(self) -> NDArray[np.float64]:
        """|v|, the sum of the counts of every document."""
        size_B = self.length_B.astype(np.float64)
        if not self.tokens.weighted:
            return size_B
        total = 0.0
        for rows_B, tokens in self.tokens.blocks():
            assert tokens.weight_N is not None, "the source said that it has weights"
            # One running sum over all blocks: where they are cut does not change a bit.
            before = np.cumsum(np.concatenate([[total], tokens.weight_N]), dtype=np.float64)
            ends = np.concatenate([[0], np.cumsum(self.length_B[rows_B])])
            size_B[rows_B], total = np.diff(before[ends]), before[-1]
        return size_B

    def word_counts(self) -> NDArray[np.float64]:
        """Return how often every word of the joint vocabulary occurs, by the documents' weights."""
        counts_K = np.zeros(self.n_words)
        importance_B = self.document_weight_B
        for rows_B, (ids_N, weight_N) in self.tokens.blocks():
            if weight_N is None and importance_B is None:
                counts_K += np.bincount(ids_N, minlength=self.n_words)
                continue
            by_N = np.ones(len(ids_N)) if weight_N is None else weight_N.astype(np.float64)
            if importance_B is not None:
                by_N *= np.repeat(importance_B[rows_B], self.length_B[rows_B])
            # One token after the other: where blocks are cut does not change a bit.
            np.add.at(counts_K, ids_N, by_N)
        return counts_K

    def class_counts(self) -> NDArray[np.float64]:
        """Return how many documents are labelled with every class, counted by their weights."""
        known = self.label_B != NO_LABEL
        weights = np.ones(len(self)) if self.document_weight_B is None else self.document_weight_B
        counts = np.bincount(self.label_B[known], weights[known], self.n_classes)
        return np.asarray(counts, np.float64)

    def take(self, documents: ArrayLike) -> "Documents":
        """Return the given documents, in the given order."""
        chosen = np.asarray(documents, np.int64)
        importance = self.document_weight_B
        return replace(
            self,
            tokens=self.tokens.take(chosen),
            label_B=self.label_B[chosen],
            document_weight_B=None if importance is None else importance[chosen],
        )

    def without_annotations(self) -> "Documents":
        """Return the same documents with their visual words alone, as at test time."""
        return replace(self, tokens=self.tokens.below(self.n_visual_words))

    def has_visual_words(self) -> bool:
        """Whether any document has a visual word."""
        n_visual_words = self.n_visual_words
        return any((t.ids_N < n_visual_words).any() for _, t in self.tokens.blocks())

    def annotation_presence(self) -> NDArray[np.bool_]:
        """Return (documents, annotation words): which documents carry which annotation."""
        present = np.zeros((len(self), self.n_annotation_words), np.bool_)
        for rows_B, (ids_N, _) in self.tokens.blocks():
            tags = ids_N >= self.n_visual_words
            row_N = np.repeat(rows_B, self.length_B[rows_B])
            present[row_N[tags], ids_N[tags] - self.n_visual_words] = True
        return present

    def fingerprint(self) -> str:
        """Return a digest of everything in the documents."""
        digest = hashlib.blake2b(digest_size=16)
        sizes = (self.n_visual_words, self.n_annotation_words, self.n_classes)
        digest.update(repr(sizes).encode())
        self.tokens.feed(digest)
        for array in (self.label_B, self.document_weight_B):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
        return digest.hexdigest()


def _tokens(counts: Corpus | sparse.csr_array, tags: sparse.csr_array | None) -> TokenSource:
    if isinstance(counts, Corpus):
        stored = StoredTokens.of(counts)
        if tags is None or tags.nnz == 0:
            return stored
        annotations = MemoryTokens.from_counts("annotations", tags, first_id=counts.n_words)
        return JoinedTokens(stored, annotations)
    if tags is not None:
        counts = sparse.csr_array(sparse.hstack([counts, tags], format="csr"))
    return MemoryTokens.from_counts("counts", counts)


def _only_known(annotations: Any, mask: ArrayLike, n_documents: int) -> Any:
    """Return annotations with the rows that are not known emptied, whatever stood there."""
    known = np.asarray(mask)
    check_shape("annotation_mask", known.shape, (n_documents,))
    if known.dtype.kind not in "biu" or not np.isin(known, (0, 1)).all():
        raise InvalidArgument("annotation_mask must be true or false for every document.")
    known = known.astype(np.bool_)
    if not sparse.issparse(annotations):
        return np.where(known[:, None], np.asarray(annotations, object), 0)
    matrix = sparse.csr_array(annotations, copy=True)
    if matrix.shape[0] == n_documents:
        matrix.data[np.repeat(~known, np.diff(matrix.indptr))] = 0
    return matrix


def _labels(given: ArrayLike | None, n_documents: int, n_classes: int) -> NDArray[np.int64]:
    if given is None:
        return np.full(n_documents, NO_LABEL, np.int64)
    labels = np.asarray(given)
    check_shape("labels", labels.shape, (n_documents,))
    if not np.issubdtype(labels.dtype, np.integer):
        raise InvalidArgument(f"labels must be integers, got {labels.dtype}.")
    if labels.size and not (labels.min() >= NO_LABEL and labels.max() < n_classes):
        raise InvalidArgument(
            f"labels must lie in 0 .. {n_classes - 1}, got {labels.min()} .. {labels.max()}."
        )
    return labels.astype(np.int64)


def _weights(given: ArrayLike | None, n_documents: int) -> NDArray[np.float32] | None:
    if given is None:
        return None
    weight = np.asarray(given, np.float32)
    check_shape("document_weight", weight.shape, (n_documents,))
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise InvalidArgument("document_weight must be finite and not negative.")
    return weight
