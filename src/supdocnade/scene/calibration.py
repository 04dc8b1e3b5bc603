"""Values chosen on held-out photographs: calibration of scores to probabilities, and thresholds."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax

from supdocnade.errors import InvalidArgument
from supdocnade.metrics import set_f_measure
from supdocnade.schema import stored

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

TEMPERATURES = (1e-2, 1e2)
SHRINKAGE = 1.0
"""Strength of the pull of slope towards 1 and prior towards 0, the uncalibrated model."""

TAG_PRECISION = 0.8
"""Precision, on held-out photographs, of the tags that are written to sidecars."""

PSEUDO_IMAGES = 10.0
"""Number of images that the expected precision counts as, beside the images of a tag."""


def fit_temperature(score_BC: Floats, label_B: NDArray[np.int64]) -> float:
    """Return T for which softmax(scores / T) gives the true classes the largest likelihood.

    One pseudo-image, whose class is equally likely to be the best and the second best, keeps the
    confidence below 1 if all predictions were right. Its log probability is the mean over images.
    """
    from scipy.optimize import minimize_scalar

    def loss(log_t: float) -> float:
        log_p_BC = log_softmax(score_BC / np.exp(log_t), axis=1)
        total = log_p_BC[np.arange(len(label_B)), label_B].sum()
        return -float(total + np.sort(log_p_BC, axis=1)[:, -2:].mean()) / (len(label_B) + 1)

    if not len(label_B):
        return 1.0
    bounds = tuple(np.log(TEMPERATURES))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def mean_probability(score_BC: Floats, label_B: NDArray[np.int64]) -> float:
    """Return the geometric mean probability of the true classes at the best temperature."""
    if not len(label_B):
        return 0.0
    log_p_BC = log_softmax(score_BC / fit_temperature(score_BC, label_B), axis=1)
    return float(np.exp(log_p_BC[np.arange(len(label_B)), label_B].mean()))


def unsure_below(confidence_B: Floats, right_B: Mask) -> float:
    """Return the confidence below which a label was wrong more often than right.

    It is the threshold with the largest surplus of wrong over right labels below it; 0 if there is
    no surplus.
    """
    order = np.argsort(confidence_B, kind="stable")
    gain = np.concatenate([[0], np.cumsum(np.where(right_B[order], -1, 1))])
    best = int(gain.argmax())
    if best == 0:
        return 0.0
    ranked = confidence_B[order]
    if best == len(ranked):
        return float(min(ranked[-1] + 1e-9, 1.0))
    return float((ranked[best - 1] + ranked[best]) / 2)


@dataclass(frozen=True, kw_only=True)
class TagCalibration:
    """p(tag is present) = σ(slope · score of tag + prior · logit of its frequency + offset).

    All tags share three numbers: most tags are too rare among held-out images for their own.
    """

    slope: float
    prior: float
    offset: float
    threshold: float = stored(least=0, most=1)
    """Tags with at least this probability are predicted."""
    precise_threshold: float = stored(TAG_PRECISION, least=0, most=1)
    """Probability, at least `threshold`, at which all tags together had a precision of 80 %."""
    precise_thresholds: dict[str, float] = stored(default_factory=dict, least=0, most=1)
    """The same for each tag."""

    def probability(self, score_BA: Floats, frequency_A: Floats) -> Floats:
        """Return the probability that every tag is present, (images, tags)."""
        logits: Floats = self.slope * score_BA + self.prior * logit(frequency_A) + self.offset
        probability: Floats = expit(logits)
        return probability


@dataclass(frozen=True)
class SVMSettings:
    """Settings of the classifier."""

    gamma: float = stored(0.5, above=0)
    """Of the kernel exp(-gamma · squared distance)."""
    penalty: float = stored(0.1, above=0)
    """Weight of the squared norm of a machine; 1 / (2 C) in other notations."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Values chosen on held-out photographs."""

    svm: SVMSettings = SVMSettings()
    """Settings of the classifier."""
    temperature: float = stored(1.0, above=0)
    unsure_below: float = stored(0.0, least=0, most=1)
    """Labels with a smaller probability were wrong more often than right."""
    unfamiliar_above: float | None = None
    """Novelty that 5 % of the held-out photographs exceed; None if too few were held out."""
    vote_spread: float = stored(0.1, above=0)
    """Of `TagVotes`."""
    vote_weight: float = stored(0.0, least=0, most=1)
    """Weight of the votes for tags; 0 is the paper's ranking."""
    tags: TagCalibration | None = None


@dataclass(frozen=True, kw_only=True)
class HeldOutImage:
    """A held-out photograph and its prediction."""

    name: str
    label: str | None
    predicted: str | None
    probability: float | None = stored(least=0, most=1)
    tags: tuple[str, ...] | None
    given: tuple[tuple[str, float], ...] = stored(least=0, most=1)
    """The five most probable tags, each with the probability that it is present."""

    @property
    def right(self) -> bool | None:
        """True if the predicted class is the true one; None if not known."""
        if self.label is None or self.predicted is None:
            return None
        return self.predicted == self.label


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Results on held-out photographs, of a model fitted on the other photographs."""

    metrics: dict[str, int | float] = field(default_factory=dict)
    """Metrics by name, such as accuracy and f_measure: those that could be measured."""
    images: tuple[HeldOutImage, ...] = ()

    @property
    def n_images(self) -> int:
        """The number of held-out photographs."""
        return len(self.images)

    def __post_init__(self) -> None:
        for metric, number in (("accuracy", "n_labelled"), ("f_measure", "n_tagged")):
            if metric in self.metrics and number not in self.metrics:
                raise InvalidArgument(f"metrics must have {number} beside {metric}")


def fit_tags(
    score_BA: Floats, frequency_A: Floats, present_BA: Mask, expected_offset: float
) -> TagCalibration:
    """Return the calibration and the threshold of tags, fitted to images whose tags are known.

    Parameters
    ----------
    score_BA : (images, tags) scores of tags.
    frequency_A : (tags,) share of the training images that have each tag.
    present_BA : (images, tags) True where a tag is present.
    expected_offset : of the uncalibrated model, at which the search begins.
    """
    from scipy.optimize import minimize

    if score_BA.shape != present_BA.shape:
        raise InvalidArgument(f"present must have shape {score_BA.shape}, got {present_BA.shape}.")
    prior_BA = np.broadcast_to(logit(frequency_A), score_BA.shape)
    features = np.stack([score_BA.ravel(), prior_BA.ravel(), np.ones(score_BA.size)])
    sign_N = np.where(present_BA.ravel(), 1.0, -1.0)
    start = np.array([1.0, 0.0, expected_offset])
    stiffness = np.array([SHRINKAGE, SHRINKAGE, 0.0])

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin_N = sign_N * (weights @ features)
        away = weights - start
        value = -log_expit(margin_N).sum() + 0.5 * stiffness @ (away * away)
        slope = features @ (-sign_N * expit(-margin_N)) + stiffness * away
        return float(value), slope

    slope, prior, offset = minimize(loss, start, jac=True, method="L-BFGS-B").x.tolist()
    loose = TagCalibration(slope=slope, prior=prior, offset=offset, threshold=0.5)
    probability_BA = loose.probability(score_BA, frequency_A)
    return replace(loose, threshold=best_threshold(probability_BA, present_BA))


def best_threshold(probability_BA: Floats, present_BA: Mask) -> float:
    """Return the threshold with the best mean F-measure; the middle of a plateau."""
    tagged = present_BA.any(axis=1)
    if not tagged.any():
        return 0.5
    thresholds = np.linspace(0.02, 0.98, 97)
    scores = [
        set_f_measure(probability_BA[tagged] >= threshold, present_BA[tagged]).mean()
        for threshold in thresholds
    ]
    best = np.flatnonzero(np.array(scores) >= max(scores) - 1e-12)
    return float(thresholds[best].mean())


def precise_thresholds(
    probability_BA: Floats, present_BA: Mask, least: float = 0.0
) -> tuple[float, Floats]:
    """Return the smallest probability with a precision of `TAG_PRECISION`: of all tags, of each.

    Few images tell little about a tag. So the images of a tag are counted together with
    `PSEUDO_IMAGES` images that have the precision of all tags; those of all tags, together with
    `PSEUDO_IMAGES` images whose precision is the probability. A tag that was never probable gets
    the threshold of all tags.

    Parameters
    ----------
    probability_BA, present_BA : (images, tags) of held-out images.
    least : smallest threshold.
    """
    thresholds_T = np.linspace(0.01, 1.0, 100)
    chosen_TA, hits_TA = np.zeros((2, len(thresholds_T), probability_BA.shape[1]))
    for number, threshold in enumerate(thresholds_T):
        chosen_BA = probability_BA >= threshold
        chosen_TA[number] = chosen_BA.sum(axis=0)
        hits_TA[number] = (chosen_BA & present_BA).sum(axis=0)
    hits_T, chosen_T = hits_TA.sum(axis=1), chosen_TA.sum(axis=1)
    precision_T = (hits_T + PSEUDO_IMAGES * thresholds_T) / (chosen_T + PSEUDO_IMAGES)
    precision_TA = (hits_TA + PSEUDO_IMAGES * precision_T[:, None]) / (chosen_TA + PSEUDO_IMAGES)
    # The first threshold that is high enough; the last one, 1, if there is no other.
    precise_TA = np.column_stack([precision_T, precision_TA]) >= TAG_PRECISION
    precise_TA[-1] = True
    found = thresholds_T[precise_TA.argmax(axis=0)].round(2).clip(least)
    return float(found[0]), found[1:]


def logit(frequency_A: Floats) -> Floats:
    """Return the log-odds of frequencies, clipped away from 0 and 1."""
    clipped = np.clip(frequency_A, 1e-4, 1 - 1e-4)
    logits: Floats = np.log(clipped) - np.log1p(-clipped)
    return logits
