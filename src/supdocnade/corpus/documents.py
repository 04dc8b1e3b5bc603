"""Documents for training: tokens with labels and weights.

The tokens may be in memory or on disk (`corpus/tokens.py`); nothing here depends on which.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from supdocnade.checks import check_shape
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.tokens import (
    CorpusRows,
    MemoryTokens,
    StoredTokens,
    TokenSource,
    canonical_counts,
    check_indices,
)
from supdocnade.errors import InvalidArgument

NO_LABEL = -1
"""Missing label. Estimators write it into documents; users pass None or NaN."""
BLOCK_SIZE = 4096
"""Documents whose global features are checked at a time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Documents:
    """Documents over a joint vocabulary of visual words and annotation words.

    `Documents.from_counts` builds and checks them.
    """

    tokens: TokenSource
    """Ids below `n_visual_words` are visual words, the others are annotation words."""
    n_visual_words: int
    n_annotation_words: int
    label_B: NDArray[np.int64]
    """Class numbers, `NO_LABEL` where unknown and where documents may have several labels."""
    n_classes: int
    document_weight_B: NDArray[np.float32] | None = None
    """Factor of each document in the objective; None if all are 1."""
    global_features_BF: NDArray[np.float32] | None = None
    """Dense features of each document beside its words; None if there are none."""
    tag_BA: NDArray[np.int8] | None = None
    """1 for annotations of a document, 0 for others, `NO_LABEL` where they are unknown; None if
    annotations are words or there are none."""
    label_BC: NDArray[np.int8] | None = None
    """1 for the labels of a document, 0 for others, `NO_LABEL` where unknown; None if a document
    has at most one label, in `label_B`."""

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
        global_features: ArrayLike | None = None,
        annotations_are_words: bool = True,
    ) -> "Documents":
        """Build documents from counts; labels and weights are used as they are.

        A count x becomes ceil(x) tokens of weight x / ceil(x): whole counts are exact.

        Parameters
        ----------
        counts : (documents, visual words) sparse or dense, finite and not negative; or a `Corpus`,
            or rows of one, whose tokens stay on disk.
        annotations : (documents, annotation words) sparse or dense.
        annotation_mask : (documents,) false where the annotations are unknown.
        labels : (documents,) class numbers below `n_classes`, `NO_LABEL` where unknown; or
            (documents, `n_classes`) 1, 0 or `NO_LABEL`, if documents may have several labels.
        document_weight : (documents,) finite and not negative.
        global_features : (documents, features) finite; an array of float32, such as a `np.memmap`,
            is not copied.
        annotations_are_words : make annotations tokens of the joint vocabulary; otherwise only note
            which documents have them.

        >>> documents = Documents.from_counts([[2, 0, 1], [0, 0, 1.5]], annotations=[[1], [0]])
        >>> documents.tokens.gather(np.array([0, 1])).ids_N.tolist(), documents.length_B.tolist()
        ([0, 0, 2, 3, 2, 2], [4, 2])
        >>> documents.tokens.gather(np.array([1])).weight_N.tolist()
        [0.75, 0.75]
        """
        if isinstance(counts, Corpus):
            counts = CorpusRows(counts, np.arange(len(counts)))
        matrix = counts if isinstance(counts, CorpusRows) else canonical_counts("counts", counts)
        n_documents, n_visual_words = matrix.shape
        tags, tag_BA = read_annotations(annotations, annotation_mask, n_documents), None
        if tags is not None and not annotations_are_words and tags.shape[1]:
            tag_BA = _tag_table(tags, annotation_mask)
        label_B, label_BC = np.full(n_documents, NO_LABEL, np.int64), None
        if labels is not None and np.ndim(labels) == 2:
            label_BC = np.asarray(labels, np.int8)
        elif labels is not None:
            label_B = np.asarray(labels, np.int64)
        return cls(
            tokens=_make_tokens(matrix, tags if tag_BA is None else None),
            n_visual_words=n_visual_words,
            n_annotation_words=0 if tags is None else tags.shape[1],
            label_B=label_B,
            n_classes=n_classes,
            document_weight_B=(
                None if document_weight is None else np.asarray(document_weight, np.float32)
            ),
            global_features_BF=read_global_features(global_features, n_documents),
            tag_BA=tag_BA,
            label_BC=label_BC,
        )

    def __len__(self) -> int:
        """B, the number of documents."""
        return len(self.label_B)

    @property
    def n_words(self) -> int:
        """K, the size of the joint vocabulary."""
        return self.n_visual_words + (self.n_annotation_words if self.tag_BA is None else 0)

    @property
    def n_global_features(self) -> int:
        """F, the number of global features, 0 if there are none."""
        return 0 if self.global_features_BF is None else self.global_features_BF.shape[1]

    @property
    def sizes(self) -> dict[str, Any]:
        """Numbers of words, annotations and features, by their names in `DocNADEConfig`."""
        return {
            "n_visual_words": self.n_visual_words,
            "n_annotation_words": self.n_annotation_words,
            "n_global_features": self.n_global_features,
        }

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
            assert tokens.weight_N is not None, "tokens are weighted"
            # One running sum over all blocks, so that block boundaries do not change its bits.
            sums = np.cumsum(np.concatenate([[total], tokens.weight_N]), dtype=np.float64)
            ends = np.concatenate([[0], np.cumsum(self.length_B[rows_B])])
            size_B[rows_B], total = np.diff(sums[ends]), sums[-1]
        return size_B

    def word_counts(self) -> NDArray[np.float64]:
        """Return the weighted count of every word of the joint vocabulary, (K,)."""
        counts_K = np.zeros(self.n_words)
        weight_B = self.document_weight_B
        for rows_B, (ids_N, weight_N) in self.tokens.blocks():
            if weight_N is None and weight_B is None:
                counts_K += np.bincount(ids_N, minlength=self.n_words)
                continue
            factor_N = np.ones(len(ids_N)) if weight_N is None else weight_N.astype(np.float64)
            if weight_B is not None:
                factor_N *= np.repeat(weight_B[rows_B], self.length_B[rows_B])
            # Added token by token, so that block boundaries do not change a bit.
            np.add.at(counts_K, ids_N, factor_N)
        return counts_K

    def class_counts(self) -> NDArray[np.float64]:
        """Return the weighted number of documents of every class, (C,)."""
        known = self.label_B != NO_LABEL
        weights = np.ones(len(self)) if self.document_weight_B is None else self.document_weight_B
        counts = np.bincount(self.label_B[known], weights[known], self.n_classes)
        return np.asarray(counts, np.float64)

    def balanced_class_weight(self) -> NDArray[np.float64]:
        """Return factors by which all classes that occur have the same weight, (C,).

        With several labels, the documents without a label divided by those with it.
        """
        if self.label_BC is not None:
            present_C, absent_C = ((self.label_BC == each).sum(axis=0) for each in (1, 0))
            both = (present_C > 0) & (absent_C > 0)
            return np.where(both, absent_C / np.maximum(present_C, 1), 1.0)
        size_C = np.bincount(self.label_B[self.label_B != NO_LABEL], minlength=self.n_classes)
        balanced: NDArray[np.float64] = size_C.sum() / (
            np.count_nonzero(size_C) * np.maximum(size_C, 1)
        )
        return balanced

    def presence_counts(
        self, table_BA: NDArray[np.int8] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weighted numbers of documents with and without each tag or label, (A,) each.

        Parameters
        ----------
        table_BA : `tag_BA` or `label_BC`.
        """
        assert table_BA is not None, "the network has outputs for it"
        weights = np.ones(len(self)) if self.document_weight_B is None else self.document_weight_B
        present_A, absent_A = (weights @ (table_BA == each) for each in (1, 0))
        return np.asarray(present_A, np.float64), np.asarray(absent_A, np.float64)

    def take(self, documents: ArrayLike) -> "Documents":
        """Return the given documents, in the given order."""
        rows_B = np.asarray(documents, np.int64)
        weight_B, features_BF = self.document_weight_B, self.global_features_BF
        return replace(
            self,
            tokens=self.tokens.take(rows_B),
            label_B=self.label_B[rows_B],
            document_weight_B=None if weight_B is None else weight_B[rows_B],
            global_features_BF=None if features_BF is None else features_BF[rows_B],
            tag_BA=None if self.tag_BA is None else self.tag_BA[rows_B],
            label_BC=None if self.label_BC is None else self.label_BC[rows_B],
        )

    def without_annotations(self) -> "Documents":
        """Return the same documents with visual words only, as at test time."""
        return replace(self, tokens=self.tokens.keep_below(self.n_visual_words))

    def annotation_presence(self) -> NDArray[np.bool_]:
        """Return which documents carry which annotations, (B, A)."""
        if self.tag_BA is not None:
            return np.equal(self.tag_BA, 1)
        present = np.zeros((len(self), self.n_annotation_words), np.bool_)
        for rows_B, (ids_N, _) in self.tokens.blocks():
            tags = ids_N >= self.n_visual_words
            row_N = np.repeat(rows_B, self.length_B[rows_B])
            present[row_N[tags], ids_N[tags] - self.n_visual_words] = True
        return present

    def fingerprint(self) -> str:
        """Return a digest of all contents."""
        digest = hashlib.blake2b(digest_size=16)
        sizes = (self.n_visual_words, self.n_annotation_words, self.n_classes)
        digest.update(repr(sizes).encode())
        self.tokens.update_digest(digest)
        for array in (self.label_B, self.document_weight_B):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
        if self.global_features_BF is not None:
            digest.update(repr(self.n_global_features).encode())
            digest.update(self.global_features_BF.data)
        if self.tag_BA is not None:
            digest.update(self.tag_BA.data)
        if self.label_BC is not None:
            digest.update(b"labels")
            digest.update(np.ascontiguousarray(self.label_BC).data)
        return digest.hexdigest()


def read_annotations(
    given: Any, mask: ArrayLike | None, n_documents: int
) -> sparse.csr_array | None:
    """Return annotations as counts, (documents, annotations); None if there are none.

    Parameters
    ----------
    mask : (documents,) false where they are unknown; these rows are not read.
    """
    if given is None:
        if mask is not None:
            raise InvalidArgument("annotation_mask needs annotations, got none.")
        return None
    if mask is not None:
        given = _clear_unknown(given, mask, n_documents)
    tags = canonical_counts("annotations", given)
    check_shape("annotations", tags.shape[:1], (n_documents,))
    return tags


def read_global_features(given: Any, n_documents: int) -> NDArray[np.float32] | None:
    """Return global features as (documents, features), or None if there are none."""
    if given is None:
        return None
    if sparse.issparse(given):
        raise InvalidArgument("global_features must be a dense array, got a sparse matrix.")
    try:
        features_BF = np.ascontiguousarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"global_features must be a table of numbers: {error}.") from error
    shape = features_BF.shape
    if len(shape) != 2 or shape[0] != n_documents or shape[1] == 0:
        raise InvalidArgument(
            f"global_features must have a row for each of the {n_documents} documents of X and at "
            f"least one column, got shape {shape}."
        )
    # Block by block: the features may be a file that is larger than the memory.
    for first in range(0, n_documents, BLOCK_SIZE):
        if not np.isfinite(features_BF[first : first + BLOCK_SIZE]).all():
            raise InvalidArgument("global_features must be finite, got NaN or infinity.")
    return features_BF


def _make_tokens(
    counts: CorpusRows | sparse.csr_array, tags: sparse.csr_array | None
) -> TokenSource:
    if isinstance(counts, CorpusRows):
        annotations = None
        if tags is not None and tags.nnz > 0:
            annotations = MemoryTokens.from_counts("annotations", tags, first_id=counts.shape[1])
        return StoredTokens.from_corpus(counts, annotations)
    if tags is not None:
        counts = sparse.csr_array(sparse.hstack([counts, tags], format="csr"))
    return MemoryTokens.from_counts("counts", counts)


def _tag_table(tags: sparse.csr_array, mask: ArrayLike | None) -> NDArray[np.int8]:
    """Return which documents have which tags, `NO_LABEL` where that is unknown."""
    tag_BA = np.zeros(tags.shape, np.int8)
    tag_BA[tags.nonzero()] = 1
    if mask is not None:
        tag_BA[~np.asarray(mask, np.bool_)] = NO_LABEL
    return tag_BA


def _clear_unknown(annotations: Any, mask: ArrayLike, n_documents: int) -> Any:
    """Return annotations with zeros in the rows that are unknown."""
    known = np.asarray(mask)
    check_shape("annotation_mask", known.shape, (n_documents,))
    if known.dtype.kind not in "biu" or not np.isin(known, (0, 1)).all():
        raise InvalidArgument("annotation_mask must be true or false for every document.")
    known = known.astype(np.bool_)
    if not sparse.issparse(annotations):
        return np.where(known[:, None], np.asarray(annotations, object), 0)
    matrix = sparse.csr_array(check_indices("annotations", annotations), copy=True)
    if matrix.shape[0] == n_documents:
        matrix.data[np.repeat(~known, np.diff(matrix.indptr))] = 0
    return matrix
