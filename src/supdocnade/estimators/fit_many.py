"""Several models fitted to the same documents: what a search over settings does."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from numpy.typing import ArrayLike

from supdocnade.corpus import Documents
from supdocnade.estimators.inputs import read_annotation_names
from supdocnade.estimators.topic_model import BegunFit, TopicModel
from supdocnade.likelihood.cpu.threads import limit_threads
from supdocnade.training.parallel_fit import fit_networks


def fit_many(
    models: Sequence[TopicModel],
    X: Any,
    y: Any = None,
    *,
    annotations: Any = None,
    annotation_mask: ArrayLike | None = None,
    annotation_names: Sequence[str] | None = None,
    sample_weight: ArrayLike | None = None,
) -> list[TopicModel]:
    """Fit several models to the same documents, on a GPU several at a time.

    Each learns what its `fit` would learn, bit for bit. Models that hold documents out for early
    stopping have documents of their own, and are fitted one after the other, as on a CPU. If one
    of them fails, all models are as they were.

    Parameters
    ----------
    models : each a `DocNADE` or a `SupDocNADE`, with whatever settings and seeds.
    X, y, annotations, annotation_mask, annotation_names, sample_weight
        As for their `fit`.

    Returns
    -------
    The models.
    """
    names = read_annotation_names(annotations, annotation_names)
    shared: dict[type, Documents] = {}
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(model._all_or_nothing())
        begun = []
        for model in models:
            own = model._documents(X, y, annotations, annotation_mask, sample_weight)
            # Models of one class read the same: what is brought to a GPU is brought there once.
            begun.append(model._begin_fit(shared.setdefault(type(model), own)))
        for corpus in shared.values():
            of_it = [place for place, each in enumerate(begun) if each.training is corpus]
            _train([models[place] for place in of_it], [begun[place] for place in of_it])
        for model, each in zip(models, begun, strict=True):
            if each.validation is not None:
                _train([model], [each])
        for model, each in zip(models, begun, strict=True):
            model._end_fit(each, names)
    return list(models)


def _train(models: Sequence[TopicModel], begun: Sequence[BegunFit]) -> None:
    """Train networks on the same documents."""
    if begun:
        with limit_threads(models[0]._n_threads()):
            trainers = [each.trainer for each in begun]
            fit_networks(trainers, begun[0].training, begun[0].validation)
