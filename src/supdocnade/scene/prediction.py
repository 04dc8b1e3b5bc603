"""Predictions of a fitted scene model: class, tags and their probabilities.

A fitted model consists of arrays and plain values. Predicting needs neither torch nor scikit-learn.
"""

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade import __version__
from supdocnade.corpus.tokens import damp_counts
from supdocnade.estimators.persistence import VisualWords
from supdocnade.folders.tags import normalize_tag
from supdocnade.images.reading import SkippedImage, image_name
from supdocnade.model.inference import NetworkArrays, topic_features
from supdocnade.model.topic_rotation import TopicRotation
from supdocnade.runs import RunOptions
from supdocnade.scene.calibration import TAG_PRECISION, Choices, HeldOut
from supdocnade.scene.class_heads import ClassHead
from supdocnade.scene.dataset import TrainingSet
from supdocnade.scene.novelty import ClassNovelty, NeighbourNovelty, fit_novelty
from supdocnade.scene.references import Compared, References, choose_references
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.tag_heads import TagHead, TagVotes, tag_head
from supdocnade.scene.thumbnails import Thumbnails
from supdocnade.schema import array, fingerprint
from supdocnade.training.config import History
from supdocnade.visual_words.encoder import ImageEncoder, ImageWords, count_words, encode_images

Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]

PREDICTING = "predicting"
"""Stage reported to `RunOptions.progress`."""

MAX_BLOCK = 64
"""Largest number of photographs predicted together; the first block has one, each next one twice
as many, so that the first prediction comes early."""


def current_versions() -> dict[str, str]:
    """Return the versions of the software that determines the bits of a result."""
    import sklearn
    import torch

    return {
        "supdocnade": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": str(torch.__version__),
    }


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Prediction for one photograph."""

    name: str
    label: str | None
    """The most probable class; None if the model knows no classes."""
    probability: float | None
    unsure: bool
    """True if labels of such a small probability were wrong more often than right on held-out
    photographs."""
    probabilities: dict[str, float]
    ranked_tags: tuple[tuple[str, float], ...]
    """All tags with the probability that they are present, ranked by p(tag | photograph) as in the
    paper, and by votes of similar photographs if that did better on held-out photographs."""
    tags: tuple[tuple[str, float], ...]
    """The tags whose probability is at least the fitted threshold, most probable first."""
    unfamiliar: bool = False
    """True if the photograph is unlike those that the model was fitted on: its `novelty`, in the
    space of topics, exceeds that of 95 % of the held-out photographs."""
    key: str | None = None
    """Digest of the contents of the photograph; None if they were not read for the prediction."""

    def best_tags(self, top: int | None = None) -> tuple[tuple[str, float], ...]:
        """Return the `top` best tags with their probabilities, or by default all predicted tags."""
        return self.tags if top is None else self.ranked_tags[:top]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Return the prediction as a JSON object, with tags as `best_tags` returns them."""
        return {
            "file": self.name,
            "label": self.label,
            "probability": self.probability,
            "unsure": self.unsure,
            "unfamiliar": self.unfamiliar,
            "probabilities": self.probabilities,
            "tags": [
                {"tag": tag, "probability": probability} for tag, probability in self.best_tags(top)
            ],
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedScene:
    """A fitted scene model."""

    settings: SceneSettings
    words: VisualWords
    network: NetworkArrays
    """The topic model."""
    history: History
    """Of the training of the topic model."""
    rotation: TopicRotation
    """From topic features to the topics that are shown."""
    classes: tuple[str, ...]
    class_head: ClassHead | None
    """The classifier; None unless there are several classes."""
    tag_names: tuple[str, ...]
    tag_frequency_A: Floats = array("A", least=0, most=1)
    """Share of the photographs with known tags that have each tag."""
    votes: TagVotes | None
    """The photographs that vote for tags; None if they have no weight."""
    choices: Choices
    held_out: HeldOut
    data: dict[str, Any]
    """Description of the training set: see `TrainingSet.describe`."""
    training_set: TrainingSet
    topics_BH: Float32s = array("BH", np.float32, stored_as=np.float16)
    """(photographs, topics) of the training set, after `round_topics`."""
    thumbnails: Thumbnails = field(default_factory=Thumbnails)
    versions: dict[str, str] = field(default_factory=current_versions)
    """Versions of the software that it was fitted with."""

    @property
    def encoder(self) -> ImageEncoder:
        """The encoder of photographs as visual words."""
        return self.words.encoder

    @cached_property
    def training_keys(self) -> frozenset[str]:
        """Digests of the contents of the photographs that it was fitted on."""
        return frozenset(self.training_set.photographs.content_keys())

    @cached_property
    def reference_rows(self) -> NDArray[np.int64]:
        """Rows of the training photographs that others are compared with."""
        return choose_references(self.training_set.photographs.label_numbers(self.classes))

    @cached_property
    def references(self) -> References:
        """The training photographs that others are compared with."""
        rows, features_BF = self.reference_rows, self.training_set.features_BF
        features_NF = None if features_BF is None else features_BF[rows]
        return References.of(self.topics_BH[rows], features_NF, self.encoder.map_width)

    @cached_property
    def novelty(self) -> NeighbourNovelty | ClassNovelty:
        """The score that tells photographs that are unlike the training photographs."""
        labels = self.training_set.photographs.labels
        return fit_novelty(
            self.topics_BH[self.reference_rows], [labels[row] for row in self.reference_rows]
        )

    def is_unfamiliar(self, topics_BH: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return True for photographs unlike those that it was fitted on, (B,)."""
        limit = self.choices.unfamiliar_above
        if limit is None:
            return np.zeros(len(topics_BH), np.bool_)
        return self.novelty.scores(topics_BH) > limit

    def used_settings(self) -> dict[str, Any]:
        """Return the settings by name, without those that have no effect with its features."""
        return {**self.words.settings.used(), **self.settings.named()}

    def damp(self, raw: sparse.csr_array) -> sparse.csr_array:
        """Return word counts as the topic model takes them."""
        scale = self.settings.damping
        return raw if scale is None else damp_counts(raw, scale)

    def compute_topics(
        self, raw: sparse.csr_array, features_BF: Float32s | None = None
    ) -> Float32s:
        """Return the topic features of photographs, (B, H).

        Parameters
        ----------
        raw : word counts.
        features_BF : features of whole photographs, if a network describes them.
        """
        return topic_features(self.network, self.damp(raw), features_BF)

    def compare(self, images: Sequence[ImageWords]) -> Compared:
        """Return photographs beside those of the training set, given their words."""
        counts = count_words([words.ids for words in images], self.encoder.n_features)
        n_image_features = self.encoder.n_image_features
        if not n_image_features:
            return self.compare_counts(counts)
        features_BF = np.array([words.features_F for words in images], np.float32)
        return self.compare_counts(counts, features_BF.reshape(-1, n_image_features))

    def compare_counts(
        self, raw: sparse.csr_array, features_BF: Float32s | None = None
    ) -> Compared:
        """Return photographs beside those of the training set.

        Parameters
        ----------
        raw, features_BF : as for `compute_topics`.
        """
        return self.references.compare(self.compute_topics(raw, features_BF), features_BF)

    def class_proba(self, photographs: Compared) -> Floats:
        """Return the probabilities of all classes, (B, C); those of one class are 1."""
        if self.class_head is None:
            return np.ones((len(photographs), len(self.classes)))
        return self.class_head.probabilities(photographs, self.choices.temperature)

    @cached_property
    def tag_head(self) -> TagHead:
        """The outputs of tags."""
        return tag_head(self.network)

    def tag_scores(self, photographs: Compared) -> Floats:
        """Return the scores that rank tags, (B, A)."""
        scores_BA = self.tag_head.scores(photographs.topics_BH)
        if self.votes is None:
            return scores_BA
        share_BA = self.votes.shares(photographs.distance_BN, self.tag_frequency_A)
        return self.tag_head.add_votes(scores_BA, share_BA, self.votes.weight)

    def tag_proba(self, photographs: Compared) -> Floats:
        """Return the probability that every tag is present, (B, A)."""
        return self.tag_presence(self.tag_scores(photographs))

    def tag_presence(self, scores_BA: Floats) -> Floats:
        """Return the probability that every tag is present, given the scores of tags."""
        calibration = self.choices.tags
        if calibration is None:
            return np.empty(scores_BA.shape)
        return calibration.probability(scores_BA, self.tag_frequency_A)

    def fingerprint(self) -> str:
        """Return a digest of everything that determines topics and probabilities.

        Everything is named: the digest stays the same if settings get another field.
        """
        digest = hashlib.blake2b(self.encoder.fingerprint().encode(), digest_size=16)
        network, choices, tags = self.network, self.choices, self.choices.tags
        config = network.config
        outputs = (config.output, config.activation, config.annotation_output)
        calibration = None if tags is None else (tags.slope, tags.prior, tags.offset)
        chosen = (choices.temperature, calibration)
        digest.update(
            repr(((self.settings.damping, *outputs), chosen, self.classes, self.tag_names)).encode()
        )
        arrays: list[NDArray[Any]] = [*network.parameters.values()]
        if network.tree is not None:
            arrays.append(network.tree.leaf_of_word_K)
        for part in (self.class_head, self.votes):
            if part is not None:
                digest.update(fingerprint(part).encode())
        known = self.references
        arrays += [self.tag_frequency_A, known.mean_X, known.factor_X, known.point_NX]
        for each in arrays:
            digest.update(np.ascontiguousarray(each).tobytes())
        return digest.hexdigest()

    @property
    def tag_threshold(self) -> float:
        """A tag is predicted if its probability is at least this."""
        return 0.5 if self.choices.tags is None else self.choices.tags.threshold

    @property
    def precise_thresholds(self) -> dict[str, float]:
        """Probability at which each tag had a precision of 80 % on held-out photographs.

        Without held-out photographs it is 0.8 for every tag.
        """
        calibration = self.choices.tags
        if calibration is None:
            return dict.fromkeys(self.tag_names, TAG_PRECISION)
        # Of the photographs that were not held out, most may have another spelling.
        known = {normalize_tag(tag): p for tag, p in calibration.precise_thresholds.items()}
        precise = calibration.precise_threshold
        return {tag: known.get(normalize_tag(tag), precise) for tag in self.tag_names}

    @property
    def tag_levels(self) -> dict[str, str]:
        """Keywords with levels, such as Animals|Cats|Tiger, by the tags that have some."""
        levels: dict[str, str] = self.data.get("tag_levels", {})
        return levels

    def add_levels(self, levels: Mapping[str, str]) -> "FittedScene":
        """Return the model with the levels of more of its tags, given by tags in any spelling."""
        paths = {normalize_tag(tag): path for tag, path in {**self.tag_levels, **levels}.items()}
        tags = [tag for tag in self.tag_names if normalize_tag(tag) in paths]
        known = {tag: paths[normalize_tag(tag)] for tag in tags}
        return replace(self, data={**self.data, "tag_levels": known}) if known else self


def iter_predictions(
    fitted: FittedScene, sources: Sequence[Any], options: RunOptions = RunOptions()
) -> Iterator[Prediction | SkippedImage]:
    """Yield the predictions for photographs in their order, as they are read.

    Parameters
    ----------
    options : with `on_error="skip"` a `SkippedImage` replaces a photograph that cannot be read.
    """
    waiting: list[tuple[str, ImageWords | SkippedImage]] = []
    block = 1
    for number, words in enumerate(
        encode_images(fitted.encoder, sources, options, stage=PREDICTING)
    ):
        waiting.append((image_name(sources, number), words))
        if len(waiting) == block or number + 1 == len(sources):
            yield from predict_words(fitted, waiting)
            waiting, block = [], min(2 * block, MAX_BLOCK)


def predict_words(
    fitted: FittedScene, images: Sequence[tuple[str, ImageWords | SkippedImage]]
) -> Iterator[Prediction | SkippedImage]:
    """Yield the predictions for photographs, given their names and words; skipped ones stay."""
    read = [(name, words) for name, words in images if not isinstance(words, SkippedImage)]
    photographs = fitted.compare([words for _, words in read])
    predictions = iter(predict_compared(fitted, [name for name, _ in read], photographs))
    for _, words in images:
        if isinstance(words, SkippedImage):
            yield words
        else:
            yield replace(next(predictions), key=words.key)


def predict_compared(
    fitted: FittedScene, names: Sequence[str], photographs: Compared
) -> list[Prediction]:
    """Return the predictions for photographs that `FittedScene.compare` returned."""
    proba_BC = fitted.class_proba(photographs)
    scores_BA = fitted.tag_scores(photographs)
    presence_BA = fitted.tag_presence(scores_BA)
    order_BA = np.argsort(-scores_BA, axis=1, kind="stable")
    threshold = fitted.tag_threshold
    unfamiliar_B = fitted.is_unfamiliar(photographs.topics_BH)
    predictions = []
    for row, name in enumerate(names):
        label = probability = None
        probabilities: dict[str, float] = {}
        if fitted.classes:
            probabilities = dict(zip(fitted.classes, proba_BC[row].tolist(), strict=True))
            label = fitted.classes[int(proba_BC[row].argmax())]
            probability = probabilities[label]
        tags = [fitted.tag_names[a] for a in order_BA[row].tolist()]
        ranked = tuple(zip(tags, presence_BA[row, order_BA[row]].tolist(), strict=True))
        given = sorted((tag for tag in ranked if tag[1] >= threshold), key=lambda tag: -tag[1])
        predictions.append(
            Prediction(
                name=name,
                label=label,
                probability=probability,
                unsure=probability is not None and probability < fitted.choices.unsure_below,
                probabilities=probabilities,
                ranked_tags=ranked,
                tags=tuple(given),
                unfamiliar=bool(unfamiliar_B[row]),
            )
        )
    return predictions
