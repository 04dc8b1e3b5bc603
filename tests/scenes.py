"""A small planted corpus and networks for it."""

import numpy as np

from supdocnade.corpus import Documents
from supdocnade.demo import PlantedScenes, planted_scenes
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork, random_tree


def scene_corpus(
    n_documents: int, seed: int = 0, *, tags: bool = True, **options
) -> tuple[PlantedScenes, Documents]:
    scenes = planted_scenes(n_documents, np.random.default_rng(seed), **options)
    corpus = Documents.from_counts(
        scenes.counts,
        annotations=scenes.tags if tags else None,
        labels=scenes.labels,
        n_classes=scenes.n_classes,
    )
    return scenes, corpus


def network_for(corpus: Documents, *, supervised: bool = True, seed: int = 0, **options):
    """Return an initialised network for the corpus."""
    shape = {
        "n_visual_words": corpus.n_visual_words,
        "n_annotation_words": corpus.n_annotation_words,
        "n_topics": 8,
        **options,
    }
    if not supervised:
        config = DocNADEConfig(**shape)
        network = DocNADENetwork(config, random_tree(config, seed))
        network.initialize(corpus.word_counts(), seed)
        return network
    config = SupDocNADEConfig(**shape, n_classes=corpus.n_classes)
    network = SupDocNADENetwork(config, random_tree(config, seed))
    network.initialize(corpus.word_counts(), seed)
    network.initialize_classes(corpus.class_counts())
    return network


def parameter_bits(network) -> dict[str, bytes]:
    return {name: p.detach().numpy().tobytes() for name, p in network.named_parameters()}
