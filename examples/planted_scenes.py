"""Train SupDocNADE on scenes whose truth is known, and see how close it comes.

    make demo

No data is needed: documents are drawn from known classes, so that the best possible accuracy, tags
and likelihood are known too.
"""

import sys
import time
from typing import Any

import numpy as np

from supdocnade.corpus import Corpus
from supdocnade.datasets.synthetic import PlantedScenes, planted_scenes
from supdocnade.metrics import f_measure, perplexity, top_ranked
from supdocnade.models import DocNADEConfig, DocNADENetwork, SupDocNADEConfig, SupDocNADENetwork
from supdocnade.models.docnade import random_tree
from supdocnade.training import Progress, Trainer, TrainerConfig
from supdocnade.training.evaluation import (
    annotation_log_prob,
    class_log_prob,
    log_prob_over_orderings,
)

N_TRAIN, N_TEST, N_TAGS, SEED = 2000, 1000, 3, 0
SETTINGS: dict[str, Any] = {
    "learning_rate": 3e-3,
    "batch_size": 50,
    "max_epochs": 20,
    "seed": SEED,
}


def show_progress(progress: Progress) -> None:
    if progress.update == progress.n_updates and sys.stderr.isatty():
        end = "\n" if progress.epoch == progress.max_epochs else ""
        done = f"epoch {progress.epoch} of {progress.max_epochs}"
        print(f"\r  {done}, objective {progress.loss:.4f}", end=end, file=sys.stderr, flush=True)


def train_with_classes_and_tags(corpus: Corpus) -> SupDocNADENetwork:
    config = SupDocNADEConfig(
        n_visual_words=corpus.n_visual_words,
        n_annotation_words=corpus.n_annotation_words,
        n_classes=corpus.n_classes,
        n_topics=32,
    )
    network = SupDocNADENetwork(config, random_tree(config, SEED))
    network.initialize(corpus.word_counts(), SEED)
    network.initialize_classes(corpus.class_counts())
    settings = TrainerConfig(**SETTINGS, generative_weight=0.1, annotation_weight=5)
    Trainer(network, settings, on_progress=show_progress).fit(corpus)
    return network


def train_on_words(corpus: Corpus) -> DocNADENetwork:
    config = DocNADEConfig(n_visual_words=corpus.n_visual_words, n_topics=32)
    network = DocNADENetwork(config, random_tree(config, SEED))
    network.initialize(corpus.word_counts(), SEED)
    Trainer(network, TrainerConfig(**SETTINGS), on_progress=show_progress).fit(corpus)
    return network


def compare_classes_and_tags(
    scenes: PlantedScenes, network: SupDocNADENetwork, test: Corpus
) -> list[list[str]]:
    """Return rows of (measure, from frequencies alone, ours, best possible)."""
    posterior = scenes.class_posterior()[N_TRAIN:]
    prior = np.tile(np.bincount(scenes.labels[:N_TRAIN]), (len(test), 1))
    frequent = np.tile(scenes.tags[:N_TRAIN].mean(axis=0), (len(test), 1))
    true_tags = test.annotation_presence()

    def accuracy(scores: np.ndarray) -> str:
        return f"{(scores.argmax(axis=1) == test.label_B).mean():.1%}"

    def tag_score(scores: np.ndarray) -> str:
        return f"{f_measure(top_ranked(scores, N_TAGS), true_tags).value:.3f}"

    classes = [prior, class_log_prob(network, test), posterior]
    tags = [frequent, annotation_log_prob(network, test), posterior @ scenes.tag_probability]
    return [
        ["SupDocNADE: accuracy", *map(accuracy, classes)],
        [f"SupDocNADE: F-measure, top {N_TAGS} tags", *map(tag_score, tags)],
    ]


def compare_likelihood(scenes: PlantedScenes, network: DocNADENetwork, test: Corpus) -> list[str]:
    """Return (measure, from frequencies alone, ours, best possible)."""
    counts = scenes.counts[:N_TRAIN].sum(axis=0) + 0.5
    unigram = scenes.counts[N_TRAIN:] @ np.log(counts / counts.sum())
    ours = log_prob_over_orderings(network, test)[0]
    values = (unigram, ours, scenes.log_prob()[N_TRAIN:])
    figures = [f"{perplexity(log_prob, test.size_B).value:.1f}" for log_prob in values]
    return ["DocNADE: perplexity of words", *figures]


def main() -> None:
    scenes = planted_scenes(
        N_TRAIN + N_TEST, np.random.default_rng(SEED), mean_length=40, contrast=1.0
    )
    full = Corpus.from_counts(
        scenes.counts, annotations=scenes.tags, labels=scenes.labels, n_classes=scenes.n_classes
    )
    words = Corpus.from_counts(scenes.counts)
    train, test = np.arange(N_TRAIN), np.arange(N_TRAIN, N_TRAIN + N_TEST)
    print(
        f"{N_TRAIN} documents to learn from, {N_TEST} to test on: {full.n_visual_words} words, "
        f"{full.n_annotation_words} tags, {full.n_classes} classes\n"
    )
    started = time.perf_counter()
    print("training SupDocNADE on words, tags and classes", flush=True)
    supervised = train_with_classes_and_tags(full.take(train))
    print("training DocNADE on words alone", flush=True)
    unsupervised = train_on_words(words.take(train))
    print(f"done in {time.perf_counter() - started:.1f} s\n")

    rows = [
        ["on the test documents", "frequencies", "ours", "best possible"],
        *compare_classes_and_tags(scenes, supervised, full.take(test)),
        compare_likelihood(scenes, unsupervised, words.take(test)),
    ]
    for row in rows:
        print(row[0].ljust(34), *(cell.rjust(13) for cell in row[1:]))


if __name__ == "__main__":
    main()
