"""Evaluation of predictions against the truth: the definition of every metric of this package."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp

from supdocnade.checks import check_choice, check_shape
from supdocnade.errors import InvalidArgument

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

Sums = dict[str, Any]
"""Sums over documents by name. Those of several sets of documents are added by `add_sums`."""

N_BINS = 10
"""Bins of equal width in which probabilities are compared with frequencies."""

N_TAGS = 5
"""Predicted tags per document of the F-measure, as in the paper."""

NORMAL_95 = 1.959964
"""Standard deviations of a 95 % interval."""


def top_ranked(scores_BA: NDArray[np.floating], top: int) -> NDArray[np.int64]:
    """Return the `top` best columns of every row, best first, ties by column number.

    >>> top_ranked(np.array([[0.2, 0.5, 0.2, 0.1]]), 3).tolist()
    [[1, 0, 2]]
    """
    return np.argsort(-scores_BA, axis=1, kind="stable")[:, :top]


def f_measure(chosen_BX: NDArray[np.integer], true_BA: NDArray[np.bool_]) -> float:
    """Return the mean over documents of 2PR / (P + R), as the paper defines it; NaN without tags.

    Parameters
    ----------
    chosen_BX : (documents, tags chosen) column numbers, no tag twice.
    true_BA : (documents, tags) which tags are right. Documents without any are left out.

    >>> chosen = np.array([[0, 1], [0, 1], [0, 1]])
    >>> f_measure(chosen, np.array([[1, 1, 0], [1, 0, 1], [0, 0, 0]], bool))
    0.75
    """
    check_shape("chosen", chosen_BX.shape[:1], true_BA.shape[:1])
    counted = true_BA.any(axis=1)
    if not counted.any():
        return float("nan")
    return float(_top_f_measure(chosen_BX, true_BA)[counted].mean())


def _top_f_measure(chosen_BX: NDArray[np.integer], true_BA: Mask) -> Floats:
    """Return the F-measure of every row of chosen column numbers."""
    hits_B = np.take_along_axis(true_BA, chosen_BX, axis=1).sum(axis=1)
    # P = hits / chosen and R = hits / true make 2PR / (P + R) = 2 hits / (chosen + true).
    f_B: Floats = 2 * hits_B / (chosen_BX.shape[1] + true_BA.sum(axis=1))
    return f_B


def set_f_measure(chosen_BA: Mask, true_BA: Mask) -> Floats:
    """Return the F-measure of every row of chosen tags; 0 where nothing is chosen or true.

    >>> set_f_measure(np.array([[True, True, False]]), np.array([[True, False, False]])).tolist()
    [0.6666666666666666]
    """
    hits = (chosen_BA & true_BA).sum(axis=1)
    total = chosen_BA.sum(axis=1) + true_BA.sum(axis=1)
    f_B: Floats = 2 * hits / np.maximum(total, 1)
    return f_B


def _calibration_bins(confidence_N: Floats, right_N: Mask) -> Floats:
    """Return the sum of confidences, right answers and answers of every bin, (3, N_BINS)."""
    bins = np.minimum((confidence_N * N_BINS).astype(np.int64), N_BINS - 1)
    return np.stack([np.bincount(bins, each, N_BINS) for each in (confidence_N, right_N, None)])


def _error_of_bins(bins: Floats) -> float:
    """Return the expected calibration error, the mean of |confidence - share of right answers|."""
    confidence, right, size = bins
    return float(abs(confidence - right).sum() / max(size.sum(), 1))


def share_interval(hits: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share.

    >>> [round(end, 3) for end in share_interval(30, 32)]
    [0.799, 0.983]
    """
    if not total:
        return 0.0, 1.0
    n, p, z = total, hits / total, NORMAL_95
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # Rounding errors must not exclude a share of 0 or 1.
    return float(max(min(middle - half, p), 0.0)), float(min(max(middle + half, p), 1.0))


def add_sums(total: Sums, more: Sums) -> None:
    """Add sums over further documents to a total.

    >>> total = {}
    >>> add_sums(total, {"n_right": 2})
    >>> add_sums(total, {"n_right": 3})
    >>> total
    {'n_right': 5}
    """
    for name, value in more.items():
        total[name] = total[name] + value if name in total else value


def class_sums(confidence_N: Floats, right_N: Mask) -> Sums:
    """Return the sums over documents that `class_metrics` needs.

    Parameters
    ----------
    confidence_N : (documents,) probability of the predicted class.
    right_N : (documents,) whether it is the true class.

    >>> right = np.array([True, True, True, False])
    >>> class_metrics(class_sums(np.full(4, 0.75), right))["class_calibration_error"]
    0.0
    """
    return {
        "n_labelled": len(right_N),
        "n_right": int(right_N.sum()),
        "class_bins": _calibration_bins(confidence_N, right_N),
    }


def class_metrics(sums: Sums) -> dict[str, float]:
    """Return the metrics of predicted classes; none without labelled documents."""
    if not sums.get("n_labelled"):
        return {}
    return {
        "accuracy": sums["n_right"] / sums["n_labelled"],
        "n_labelled": sums["n_labelled"],
        "class_calibration_error": _error_of_bins(sums["class_bins"]),
    }


def accuracy(
    predicted: NDArray[Any],
    true: NDArray[Any],
    known: Mask,
    weight_B: NDArray[np.floating] | None = None,
) -> float:
    """Return the share of documents whose class, or whose labels, are all right.

    Parameters
    ----------
    predicted, true : (documents,) classes, or (documents, labels) which labels are present.
    known : of the same shape, which of the true ones are known. The others are not compared, and
        documents without a known one are left out; NaN if these are all.
    weight_B : (documents,) weights of the documents.

    >>> accuracy(np.array([0, 1, 1]), np.array([0, 2, -1]), np.array([True, True, False]))
    0.5
    >>> predicted, true = np.array([[1, 0], [1, 1]], bool), np.array([[1, 0], [1, 0]], bool)
    >>> accuracy(predicted, true, np.ones((2, 2), bool))
    0.5
    """
    known_BC = known.reshape(len(known), -1)
    right_B = ((predicted == true) | ~known).reshape(known_BC.shape).all(axis=1)
    counted = known_BC.any(axis=1)
    if not counted.any():
        return float("nan")
    return float(
        np.average(right_B[counted], weights=None if weight_B is None else weight_B[counted])
    )


def tag_sums(
    top_BX: NDArray[np.integer], chosen_BA: Mask, probability_BA: Floats, true_BX: Mask
) -> Sums:
    """Return the sums over documents with known tags that `tag_metrics` needs.

    Parameters
    ----------
    top_BX : (documents, N_TAGS) columns of the best tags.
    chosen_BA : (documents, tags) which tags have at least the probability of the threshold.
    probability_BA : (documents, tags) probability that each tag is present.
    true_BX : (documents, tags and more) which tags are present; columns beyond those of
        `probability_BA` are tags that the model does not know, which count as missed.
    """
    n_tags = probability_BA.shape[1]
    tagged_B = true_BX.any(axis=1)
    padded, top_BA = np.zeros_like(true_BX), np.zeros_like(chosen_BA)
    padded[:, :n_tags] = chosen_BA
    np.put_along_axis(top_BA, top_BX, True, axis=1)
    return {
        "n_tagged": int(tagged_B.sum()),
        "tag_bins": _calibration_bins(probability_BA.ravel(), true_BX[:, :n_tags].ravel()),
        "f_of_top": float(_top_f_measure(top_BX, true_BX)[tagged_B].sum()),
        "f_of_given": float(set_f_measure(padded, true_BX)[tagged_B].sum()),
        **tag_counts(chosen_BA, true_BX[:, :n_tags]),
        **{f"top_{name}": each for name, each in tag_counts(top_BA, true_BX[:, :n_tags]).items()},
    }


def tag_counts(chosen_BA: Mask, true_BA: Mask) -> Sums:
    """Return in how many documents each tag is present, chosen, and both."""
    return {
        "n_true_A": true_BA.sum(axis=0),
        "n_given_A": chosen_BA.sum(axis=0),
        "n_both_A": (true_BA & chosen_BA).sum(axis=0),
    }


def tag_metrics(sums: Sums) -> dict[str, float]:
    """Return the metrics of predicted tags; F-measures only if a document has a tag."""
    n_tagged = sums["n_tagged"]
    metrics = {"n_tagged": n_tagged, "tag_calibration_error": _error_of_bins(sums["tag_bins"])}
    if n_tagged:
        metrics["f_measure"] = sums["f_of_top"] / n_tagged
        metrics["f_measure_of_given"] = sums["f_of_given"] / n_tagged
        n_true_A, n_given_A, n_both_A = (
            sums[f"top_{name}"] for name in ("n_true_A", "n_given_A", "n_both_A")
        )
        metrics |= per_tag_metrics(n_true_A, n_given_A, n_both_A)
    return metrics


def per_tag_metrics(
    n_true_A: NDArray[np.integer], n_given_A: NDArray[np.integer], n_both_A: NDArray[np.integer]
) -> dict[str, float]:
    """Return the metrics of image annotation by tag, for five predicted tags per document.

    These are the means, over the tags that a document has, of precision and recall, their harmonic
    mean, and the number of tags with a recall above 0. A tag that is never predicted has a
    precision of 0.

    Parameters
    ----------
    n_true_A, n_given_A, n_both_A : as in `tag_counts`.

    >>> found = per_tag_metrics(np.array([2, 1, 0]), np.array([1, 0, 3]), np.array([1, 0, 0]))
    >>> found["tag_precision"], found["tag_recall"], found["n_tags_found"]
    (0.5, 0.25, 1)
    """
    present = n_true_A > 0
    if not present.any():
        return {}
    precision = float((n_both_A / np.maximum(n_given_A, 1))[present].mean())
    recall = float((n_both_A[present] / n_true_A[present]).mean())
    return {
        "tag_precision": precision,
        "tag_recall": recall,
        "tag_f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        "n_tags_found": int((n_both_A > 0).sum()),
        "n_tags_present": int(present.sum()),
    }


def perplexity(
    log_prob_B: NDArray[np.floating], n_words_B: NDArray[np.floating], average: str = "document"
) -> float:
    """Return the perplexity per word; documents without words are left out.

    Parameters
    ----------
    log_prob_B : log p(v) of every document, in nats.
    n_words_B : |v|, its number of words (the sum of its counts).
    average : "document", exp(-mean of log p(v) / |v|), as in publications, or "corpus",
        exp(-Σ log p(v) / Σ |v|).

    >>> perplexity(np.log([0.25, 0.5, 1.0]), np.array([2.0, 1.0, 0.0]))
    2.0
    """
    check_choice("average", average, ("document", "corpus"))
    check_shape("n_words", n_words_B.shape, log_prob_B.shape)
    full = n_words_B > 0
    if not full.any():
        raise InvalidArgument("perplexity needs a document with words, got none.")
    log_prob, n_words = log_prob_B[full].astype(np.float64), n_words_B[full].astype(np.float64)
    if average == "document":
        per_word = (log_prob / n_words).mean()
    else:
        per_word = log_prob.sum() / n_words.sum()
    return float(np.exp(-per_word))


def over_orderings(log_prob_RB: NDArray[np.floating], combine: str) -> Floats:
    """Combine the log-probabilities of documents over R orderings of their words.

    Parameters
    ----------
    combine : "mean_log", the mean of log p: what a random ordering costs on average; or "log_mean",
        the log of the mean p: the likelihood of the mixture of the orderings, which is never less.
    """
    check_choice("combine", combine, ("mean_log", "log_mean"))
    log_prob = log_prob_RB.astype(np.float64)
    if combine == "mean_log":
        mean: Floats = log_prob.mean(axis=0)
        return mean
    mixture: Floats = logsumexp(log_prob, axis=0) - np.log(len(log_prob))
    return mixture


def presence_correlation(
    values_BH: NDArray[np.floating], counts: Iterable[sparse.sparray]
) -> Floats:
    """Return the correlation of values of documents with the presence of words, (H, words).

    It is 0 for a word that all documents or none have, and for a value that never varies.

    Parameters
    ----------
    values_BH : (documents, values).
    counts : (documents, words) of the same documents, in several matrices, one after the other.

    >>> words = sparse.csr_array([[2, 0, 1], [0, 1, 1], [1, 0, 1], [0, 4, 1]])
    >>> presence_correlation(np.array([[3.0], [1.0], [3.0], [1.0]]), [words]).tolist()
    [[1.0, -1.0, 0.0]]
    """
    centred_BH = values_BH - values_BH.mean(axis=0, dtype=np.float64)
    spread_H1 = np.sqrt((centred_BH**2).mean(axis=0))[:, None]
    first, products_HK, sum_K = 0, np.zeros(()), np.zeros(())
    for block in counts:
        present_BK = (sparse.csr_array(block) > 0).astype(np.float64)
        rows_BH = centred_BH[first : first + block.shape[0]]
        products_HK = products_HK + (present_BK.T @ rows_BH).T
        sum_K = sum_K + np.asarray(present_BK.sum(axis=0))
        first += block.shape[0]
    share_K = sum_K / max(len(values_BH), 1)
    variance_K = np.maximum(share_K - np.square(share_K), 0.0)
    scale_HK = len(values_BH) * spread_H1 * np.sqrt(variance_K)
    correlation: Floats = np.zeros_like(products_HK)
    np.divide(products_HK, scale_HK, out=correlation, where=scale_HK > 0)
    return correlation


def npmi_coherence(
    words_HX: NDArray[np.integer], counts: sparse.sparray | Iterable[sparse.sparray]
) -> Floats:
    """Return how much the top words of every topic occur in the same documents, (H,) in [-1, 1].

    The mean over all pairs of NPMI = log(p(i, j) / (p(i) p(j))) / -log p(i, j), with p the share of
    documents that hold the words; -1 for a pair that never meets.

    Parameters
    ----------
    words_HX : (topics, at least 2) column numbers, no word twice in a topic.
    counts : (documents, words) the documents that are looked at, in one matrix or in several.

    >>> together = sparse.csr_array([[1, 1, 0], [2, 1, 0], [0, 0, 1], [0, 0, 3]])
    >>> npmi_coherence(np.array([[0, 1], [0, 2]]), together).tolist()
    [1.0, -1.0]
    """
    if words_HX.ndim != 2 or words_HX.shape[1] < 2:
        raise InvalidArgument(f"words must be at least 2 per topic, got shape {words_HX.shape}.")
    used, places = np.unique(words_HX, return_inverse=True)
    joint, n_documents = np.zeros((len(used), len(used))), 0
    blocks: Iterable[Any] = [counts] if sparse.issparse(counts) else counts
    for block in blocks:
        present = (sparse.csc_array(block)[:, used] > 0).astype(np.float64)
        joint += (present.T @ present).toarray()  # Whole numbers: exact in any blocks.
        n_documents += block.shape[0]
    joint /= max(n_documents, 1)
    p_i, p_j = np.diag(joint)[:, None], np.diag(joint)[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        npmi = np.log(joint / (p_i * p_j)) / -np.log(joint)
    npmi[joint == 0] = -1.0
    npmi[joint == 1] = 0.0  # Words of every document say nothing about each other.
    first, second = np.triu_indices(words_HX.shape[1], 1)
    places = places.reshape(words_HX.shape)
    coherence: Floats = npmi[places[:, first], places[:, second]].mean(axis=1)
    return coherence


def split_words(
    counts: sparse.csr_array, generator: np.random.Generator
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return two random halves of the words of every document; an odd word is in the second.

    >>> halves = split_words(sparse.csr_array([[3, 0, 2], [0, 1, 0]]), np.random.default_rng(0))
    >>> [int(half.sum()) for half in halves], sum(halves).toarray().tolist()
    ([2, 4], [[3, 0, 2], [0, 1, 0]])
    """
    number_E = np.rint(counts.data).astype(np.int64)
    if (number_E != counts.data).any():
        raise InvalidArgument("only documents of whole counts can be split into halves.")
    size_B = np.diff(np.append(0, np.cumsum(number_E))[counts.indptr])
    row_N = np.repeat(np.arange(len(size_B)), size_B)
    entry_N = np.repeat(np.arange(len(number_E)), number_E)
    order_N = np.lexsort((generator.random(len(row_N)), row_N))
    place_N = np.arange(len(row_N)) - np.repeat(np.cumsum(size_B) - size_B, size_B)
    given_E = np.bincount(entry_N[order_N][place_N < size_B[row_N] // 2], minlength=len(number_E))
    first, second = (
        sparse.csr_array((data_E, counts.indices, counts.indptr), shape=counts.shape)
        for data_E in (given_E, number_E - given_E)
    )
    return first, second
