"""A corpus: the tokens of all documents one after the other, with labels where they are known.

A document is a bag. Its tokens stand in the order of their ids, visual words before annotation
words; every reader of a corpus draws an order of its own.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from supdocnade.errors import InvalidArgument
from supdocnade.shapes import check_shape

MAX_TOKENS = 2**34
"""A corpus is held in memory, four bytes a token: 64 GiB."""

NO_LABEL = -1
"""Stands for a missing label within a corpus, which estimators make; users have None or NaN."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """Documents over a joint vocabulary of visual words and annotation words.

    Made by `Corpus.from_counts`.
    """

    token_ids_N: NDArray[np.int32]
    """Ids below `n_visual_words` are visual words, the others annotation words."""
    offsets_B1: NDArray[np.int64]
    """Document d owns the tokens `offsets[d]:offsets[d + 1]`."""
    token_weight_N: NDArray[np.float32] | None
    """Share of a whole token, where counts were fractions; None: all ones."""
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
    ) -> "Corpus":
        """Build a corpus from matrices of counts.

        A count x becomes ceil(x) tokens of weight x / ceil(x): whole counts are exact.

        Parameters
        ----------
        counts : (documents, visual words) sparse or dense, finite and not negative.
        annotations : (documents, annotation words) likewise; None if there are none.
        annotation_mask : (documents,) false where the annotations are not known.
        labels : (documents,) class numbers below `n_classes`, `NO_LABEL` where not known.
        document_weight : (documents,) finite and not negative.

        >>> corpus = Corpus.from_counts([[2, 0, 1], [0, 0, 1.5]], annotations=[[1], [0]])
        >>> corpus.token_ids_N.tolist(), corpus.offsets_B1.tolist()
        ([0, 0, 2, 3, 2, 2], [0, 4, 6])
        >>> corpus.token_weight_N.tolist()
        [1.0, 1.0, 1.0, 1.0, 0.75, 0.75]
        """
        matrix = _counts("counts", counts)
        n_documents, n_visual_words = matrix.shape
        n_annotation_words = 0
        if annotation_mask is not None and annotations is None:
            raise InvalidArgument("annotation_mask needs annotations, got none.")
        if annotations is not None:
            if annotation_mask is not None:
                annotations = _only_known(annotations, annotation_mask, n_documents)
            tags = _counts("annotations", annotations)
            check_shape("annotations", tags.shape[:1], (n_documents,))
            n_annotation_words = tags.shape[1]
            matrix = sparse.csr_array(sparse.hstack([matrix, tags], format="csr"))
        if matrix.data.sum() > MAX_TOKENS:
            raise InvalidArgument(
                f"counts must add up to at most {MAX_TOKENS} words, got {matrix.data.sum():.3g}."
            )
        repeats = np.ceil(matrix.data).astype(np.int64)
        share = (matrix.data / repeats).astype(np.float32)
        ends = np.concatenate([[0], np.cumsum(repeats)])
        return cls(
            token_ids_N=np.repeat(matrix.indices.astype(np.int32), repeats),
            offsets_B1=ends[matrix.indptr],
            token_weight_N=np.repeat(share, repeats) if (share != 1).any() else None,
            n_visual_words=n_visual_words,
            n_annotation_words=n_annotation_words,
            label_B=_labels(labels, n_documents, n_classes),
            n_classes=n_classes,
            document_weight_B=_weights(document_weight, n_documents),
        )

    def __len__(self) -> int:
        """B, the number of documents."""
        return len(self.offsets_B1) - 1

    @property
    def n_words(self) -> int:
        """K, the size of the joint vocabulary."""
        return self.n_visual_words + self.n_annotation_words

    @cached_property
    def length_B(self) -> NDArray[np.int64]:
        """Number of tokens of every document."""
        return np.diff(self.offsets_B1)

    @cached_property
    def size_B(self) -> NDArray[np.float64]:
        """|v|, the sum of the counts of every document."""
        before = np.concatenate([[0.0], np.cumsum(self._weights_or_ones(), dtype=np.float64)])
        return np.diff(before[self.offsets_B1])

    def word_counts(self) -> NDArray[np.float64]:
        """Return how often every word of the joint vocabulary occurs, by the documents' weights."""
        weights = self._weights_or_ones().astype(np.float64)
        if self.document_weight_B is not None:
            weights *= np.repeat(self.document_weight_B, self.length_B)
        return np.asarray(np.bincount(self.token_ids_N, weights, self.n_words), np.float64)

    def class_counts(self) -> NDArray[np.float64]:
        """Return how many documents are labelled with every class, counted by their weights."""
        known = self.label_B != NO_LABEL
        weights = np.ones(len(self)) if self.document_weight_B is None else self.document_weight_B
        counts = np.bincount(self.label_B[known], weights[known], self.n_classes)
        return np.asarray(counts, np.float64)

    def token_places(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the tokens of the given documents stand, one document after the other."""
        lengths = self.length_B[documents]
        ends = np.cumsum(lengths)
        places: NDArray[np.int64] = np.repeat(self.offsets_B1[documents] - ends + lengths, lengths)
        places += np.arange(places.size)
        return places

    def take(self, documents: ArrayLike) -> "Corpus":
        """Return the corpus of the given documents, in the given order."""
        chosen = np.asarray(documents, np.int64)
        places = self.token_places(chosen)
        weight, importance = self.token_weight_N, self.document_weight_B
        return Corpus(
            token_ids_N=self.token_ids_N[places],
            offsets_B1=np.concatenate([[0], np.cumsum(self.length_B[chosen])]),
            token_weight_N=None if weight is None else weight[places],
            n_visual_words=self.n_visual_words,
            n_annotation_words=self.n_annotation_words,
            label_B=self.label_B[chosen],
            n_classes=self.n_classes,
            document_weight_B=None if importance is None else importance[chosen],
        )

    def without_annotations(self) -> "Corpus":
        """Return the same documents with their visual words alone, as at test time."""
        visual_N = self.token_ids_N < self.n_visual_words
        before = np.concatenate([[0], np.cumsum(visual_N)])
        weight = self.token_weight_N
        return Corpus(
            token_ids_N=self.token_ids_N[visual_N],
            offsets_B1=before[self.offsets_B1],
            token_weight_N=None if weight is None else weight[visual_N],
            n_visual_words=self.n_visual_words,
            n_annotation_words=self.n_annotation_words,
            label_B=self.label_B,
            n_classes=self.n_classes,
            document_weight_B=self.document_weight_B,
        )

    def annotation_presence(self) -> NDArray[np.bool_]:
        """Return (documents, annotation words): which documents carry which annotation."""
        present = np.zeros((len(self), self.n_annotation_words), np.bool_)
        document_N = np.repeat(np.arange(len(self)), self.length_B)
        tags = self.token_ids_N >= self.n_visual_words
        present[document_N[tags], self.token_ids_N[tags] - self.n_visual_words] = True
        return present

    def fingerprint(self) -> str:
        """Return a digest of everything in the corpus."""
        digest = hashlib.blake2b(digest_size=16)
        sizes = (self.n_visual_words, self.n_annotation_words, self.n_classes)
        digest.update(repr(sizes).encode())
        for array in (
            self.token_ids_N,
            self.offsets_B1,
            self.token_weight_N,
            self.label_B,
            self.document_weight_B,
        ):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _weights_or_ones(self) -> NDArray[np.float32]:
        if self.token_weight_N is None:
            return np.ones(len(self.token_ids_N), np.float32)
        return self.token_weight_N


def _counts(name: str, given: Any) -> sparse.csr_array:
    """Return a matrix of counts in canonical form: sorted, no duplicates, no zeros."""
    if sparse.issparse(given):
        if given.ndim != 2:
            raise InvalidArgument(f"{name} must have two dimensions, got {given.ndim}.")
        matrix = sparse.csr_array(given, dtype=np.float64, copy=True)
    else:
        try:
            dense = np.asarray(given, np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"{name} must be a matrix of numbers: {error}.") from error
        if dense.ndim != 2:
            raise InvalidArgument(f"{name} must have two dimensions, got {dense.ndim}.")
        matrix = sparse.csr_array(dense)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        raise InvalidArgument(f"{name} must be finite, got NaN or infinity.")
    if (matrix.data < 0).any():
        raise InvalidArgument(f"{name} must not be negative, got {matrix.data.min()}.")
    return matrix


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
