"""A small corpus with planted classes and tags, and networks for it."""

import numpy as np
import torch
from examples.planted_scenes import PlantedScenes, planted_scenes
from numpy.typing import NDArray

from supdocnade.corpus import Documents
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.model.network import make_network, random_tree


def scene_corpus(
    n_documents: int,
    seed: int = 0,
    *,
    tags: bool = True,
    n_global_features: int = 0,
    annotations_are_words: bool = True,
    **options,
) -> tuple[PlantedScenes, Documents]:
    """Return planted scenes, also as documents with `global_features` of their classes."""
    scenes = planted_scenes(n_documents, np.random.default_rng(seed), **options)
    corpus = Documents.from_counts(
        scenes.counts,
        annotations=scenes.tags if tags else None,
        labels=scenes.labels,
        n_classes=scenes.n_classes,
        global_features=global_features(scenes.labels, n_global_features),
        annotations_are_words=annotations_are_words,
    )
    return scenes, corpus


def global_features(labels: NDArray[np.int64], n_features: int) -> NDArray[np.float32] | None:
    """Return features that tell the classes apart, noise around a centre per class."""
    if n_features == 0:
        return None
    centres = np.random.default_rng(0).normal(0, 1, (labels.max() + 1, n_features))
    noise = np.random.default_rng(1).normal(0, 0.5, (len(labels), n_features))
    return (centres[labels] + noise).astype(np.float32)


def network_for(corpus: Documents, *, supervised: bool = True, seed: int = 0, **options):
    """Return an initialised network for the corpus."""
    shape = {
        "n_visual_words": corpus.n_visual_words,
        "n_annotation_words": corpus.n_annotation_words,
        "n_global_features": corpus.n_global_features,
        "annotation_output": "words" if corpus.tag_BA is None else "sigmoid",
        "n_topics": 8,
        **options,
    }
    if supervised:
        output = "softmax" if corpus.label_BC is None else "sigmoid"
        config = SupDocNADEConfig(**shape, n_classes=corpus.n_classes, class_output=output)
    else:
        config = DocNADEConfig(**shape)
    network = make_network(config, random_tree(config, seed))
    network.initialize(corpus, seed)
    return network


def parameter_bits(network) -> dict[str, bytes]:
    return {name: p.detach().numpy().tobytes() for name, p in network.named_parameters()}


def randomize(network, spread: float = 0.5):
    """Draw all parameters of a network anew."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, spread, generator=generator)
    return network
