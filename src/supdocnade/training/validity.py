"""What is refused before training begins, and what stops it."""

import math

import numpy as np
import torch
from numpy.typing import ArrayLike

from supdocnade.corpus import Documents
from supdocnade.errors import InvalidArgument, TrainingDiverged
from supdocnade.models import DocNADENetwork, SupDocNADENetwork
from supdocnade.shapes import check_shape
from supdocnade.training.config import TrainerConfig
from supdocnade.training.evaluation import available_metrics


def check_trainable(
    network: DocNADENetwork,
    config: TrainerConfig,
    corpus: Documents,
    validation: Documents | None,
) -> None:
    """Refuse documents that do not fit the network, and settings that do not fit them."""
    if len(corpus) == 0:
        raise InvalidArgument("corpus must have a document, got none.")
    if config.generative_weight == 0 and not isinstance(network, SupDocNADENetwork):
        raise InvalidArgument(
            "generative_weight must be above 0 for a network without classes, got 0."
        )
    for name, part in (("corpus", corpus), ("validation", validation)):
        if part is None:
            continue
        ours = (network.config.n_visual_words, network.config.n_annotation_words)
        theirs = (part.n_visual_words, part.n_annotation_words)
        if ours != theirs:
            raise InvalidArgument(
                f"{name} must have {ours[0]} visual and {ours[1]} annotation words, "
                f"got {theirs[0]} and {theirs[1]}."
            )
        if isinstance(network, SupDocNADENetwork) and part.n_classes > network.config.n_classes:
            raise InvalidArgument(
                f"{name} must have at most {network.config.n_classes} classes, "
                f"got {part.n_classes}."
            )
    if config.early_stopping:
        if validation is None or len(validation) == 0:
            raise InvalidArgument("early_stopping needs a validation part, got none.")
        known = available_metrics(network, validation)
        if config.metric not in known:
            raise InvalidArgument(
                f"metric must be one of {known} for this network and validation part, "
                f"got {config.metric!r}."
            )


def class_weight_of(network: DocNADENetwork, given: ArrayLike | None) -> torch.Tensor | None:
    """Return what multiplies the class term of documents of each class, (C,), if it is right."""
    if given is None:
        return None
    if not isinstance(network, SupDocNADENetwork):
        raise InvalidArgument("class_weight needs a network with classes.")
    weight = torch.as_tensor(np.asarray(given, np.float32))
    check_shape("class_weight", weight.shape, (network.config.n_classes,))
    if not bool((weight.isfinite() & (weight >= 0)).all()):
        raise InvalidArgument(
            f"class_weight must be finite and not negative, got {weight.tolist()}."
        )
    # An update that is recorded on a GPU cannot fetch it from here.
    return weight.to(network.word_embedding.device)


def check_finite(config: TrainerConfig, what: str, value: float, when: str) -> None:
    """Stop with a sentence if a run has diverged."""
    if math.isfinite(value):
        return
    clip = "set clip_norm" if config.clip_norm is None else f"clip_norm ({config.clip_norm:g})"
    raise TrainingDiverged(
        f"{what} became {value} {when}; lower learning_rate ({config.learning_rate:g}) or {clip}."
    )
