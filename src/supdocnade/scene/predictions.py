"""What a model says of photographs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supdocnade.encoding.encoder import count_words
from supdocnade.encoding.many import LeftOut
from supdocnade.metrics import top_ranked
from supdocnade.scene.fitted import FittedScene

Waiting = tuple[str, NDArray[np.int32] | LeftOut]
"""A photograph that was read, or not: its name, and its words or what was wrong with it."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model says of one photograph."""

    name: str
    label: str | None
    """None: the model knows no classes."""
    probability: float | None
    unsure: bool
    """Labels of so little probability were wrong more often than right on held-out photographs."""
    probabilities: dict[str, float]
    ranked_tags: tuple[tuple[str, float], ...]
    """All tags, the most fitting first, with the probability that they are there: ranked by
    p(tag | photograph), as in the paper, and by what the classes say of tags, where that did better
    on held-out photographs."""
    tags: tuple[tuple[str, float], ...]
    """Those among them that the photograph deserves, the most probable first: their probability
    reaches the threshold that was learned."""


def answer(fitted: FittedScene, waiting: Sequence[Waiting]) -> Iterator[Prediction | LeftOut]:
    """Predict for some photographs at once; those that could not be read keep their places."""
    read = [(name, words) for name, words in waiting if not isinstance(words, LeftOut)]
    hidden_BH = fitted.hidden(count_words([words for _, words in read], fitted.bag.n_features_out_))
    found = iter(predict_topics(fitted, [name for name, _ in read], hidden_BH))
    for _, words in waiting:
        yield words if isinstance(words, LeftOut) else next(found)


def predict_topics(
    fitted: FittedScene, names: Sequence[str], hidden_BH: NDArray[np.float32]
) -> list[Prediction]:
    """Return what follows from the topic features of photographs."""
    proba_BC = fitted.class_proba(hidden_BH) if fitted.classes else None
    scores_BA = fitted.tag_scores(hidden_BH, proba_BC)
    presence_BA = fitted.tag_presence(scores_BA)
    order_BA = top_ranked(scores_BA, len(fitted.tag_names))
    return [
        _prediction(
            fitted,
            name,
            None if proba_BC is None else proba_BC[row],
            presence_BA[row],
            order_BA[row],
        )
        for row, name in enumerate(names)
    ]


def _prediction(
    fitted: FittedScene,
    name: str,
    proba_C: NDArray[np.float64] | None,
    presence_A: NDArray[np.float64],
    order_A: NDArray[np.int64],
) -> Prediction:
    label = probability = None
    probabilities: dict[str, float] = {}
    if proba_C is not None:
        best = int(proba_C.argmax())
        label, probability = fitted.classes[best], float(proba_C[best])
        probabilities = dict(zip(fitted.classes, proba_C.tolist(), strict=True))
    threshold = 0.5 if fitted.choices.tags is None else fitted.choices.tags.threshold
    names = [fitted.tag_names[a] for a in order_A.tolist()]
    ranked = tuple(zip(names, presence_A[order_A].tolist(), strict=True))
    deserved = sorted((tag for tag in ranked if tag[1] >= threshold), key=lambda tag: -tag[1])
    return Prediction(
        name=name,
        label=label,
        probability=probability,
        unsure=probability is not None and probability < fitted.choices.unsure_below,
        probabilities=probabilities,
        ranked_tags=ranked,
        tags=tuple(deserved),
    )
