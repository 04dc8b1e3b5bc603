"""Several hidden layers on a GPU: the losses of the CPU, reproducible bits, recorded updates."""

import numpy as np
import pytest
import torch
from tests.planted_corpus import network_for, scene_corpus

from supdocnade import DocNADE, SupDocNADE
from supdocnade.corpus import Documents
from supdocnade.likelihood import contract
from supdocnade.training.cuda_graph import GraphUpdates
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU that torch can use"
)

SETTINGS = {
    "generative_weight": 0.05, "annotation_weight": 4.0, "learning_rate": 3e-3, "batch_size": 32,
    "max_epochs": 5,
}  # fmt: skip
SHAPE = {"n_topics": (20, 16)}


def corpus(n_documents=150, seed=0, **options) -> Documents:
    return scene_corpus(n_documents, seed, mean_length=60, n_visual_words=50, **options)[1]


def trainer(documents, device, *, output="tree", n_topics=(20, 16), checkpoint=None, **options):
    network = network_for(documents, n_topics=n_topics, output=output).to(device)
    return Trainer(network, TrainerConfig(**{**SETTINGS, **options}), checkpoint=checkpoint)


def assert_same_bits(first, second):
    for a, b in zip(first.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.fixture
def few_rows(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(contract, "SPARSE_ROWS", 1)
    return request.param


@pytest.mark.parametrize("few_rows", [False, True], ids=["dense", "touched rows"], indirect=True)
@pytest.mark.parametrize("output", ["tree", "softmax"])
@pytest.mark.parametrize(
    "options",
    [{"clip_norm": 0.5, "averaging": 0.9}, {"optimizer": "sgd", "learning_rate": 1e-2}],
)
def test_the_losses_of_the_cpu_and_reproducible_bits(options, output, few_rows):
    documents, unseen = corpus(), corpus(60, 1)
    on_cpu, on_gpu, again = (
        trainer(documents, device, output=output, **options) for device in ("cpu", "cuda", "cuda")
    )
    expected, actual = (each.fit(documents, unseen) for each in (on_cpu, on_gpu))
    for a, e in zip(actual.epochs, expected.epochs, strict=True):
        assert a.loss == pytest.approx(e.loss, rel=1e-3)
        assert a.validation["loss"] == pytest.approx(e.validation["loss"], rel=1e-3)
    again.fit(documents, unseen)
    assert_same_bits(on_gpu, again)
    assert isinstance(again.graph_updates(documents), GraphUpdates) != few_rows


@pytest.mark.parametrize("few_rows", [False, True], ids=["dense", "touched rows"], indirect=True)
def test_features_fractions_and_tags_resume_with_the_same_bits(few_rows, tmp_path):
    tagged = corpus(n_global_features=7, annotations_are_words=False)
    on_cpu, on_gpu = (trainer(tagged, device) for device in ("cpu", "cuda"))
    expected, actual = (each.fit(tagged) for each in (on_cpu, on_gpu))
    for a, e in zip(actual.epochs, expected.epochs, strict=True):
        assert a.loss == pytest.approx(e.loss, rel=1e-3)
    stopped = trainer(tagged, "cuda", checkpoint=tmp_path / "run")
    stopped.start(tagged, None)
    for _ in range(2):
        stopped.run_epoch(tagged)
        stopped.end_epoch(None)
    resumed = trainer(tagged, "cuda", checkpoint=tmp_path / "run")
    resumed.fit(tagged)
    assert_same_bits(resumed, on_gpu)


def test_fractional_counts_give_the_same_bits_again():
    # Sums of fractions depend on their order, which is random on a GPU, unless they are rounded.
    rng = np.random.default_rng(0)
    counts = rng.gamma(1.0, 3.0, (400, 40))
    documents = Documents.from_counts(counts, labels=rng.integers(0, 3, 400), n_classes=3)
    first, second = (trainer(documents, "cuda", batch_size=200) for _ in range(2))
    losses = [[each.loss for each in one.fit(documents).epochs] for one in (first, second)]
    assert losses[0] == losses[1]
    assert_same_bits(first, second)


def test_groups_of_documents_run_without_a_graph():
    documents = corpus()
    grouped, plain = (
        trainer(documents, device, batch_groups=groups)
        for device, groups in (("cuda", 4), ("cpu", 1))
    )
    assert grouped.graph_updates(documents) is None
    expected, actual = (each.fit(documents) for each in (plain, grouped))
    assert actual.epochs[-1].loss == pytest.approx(expected.epochs[-1].loss, rel=1e-3)


def test_estimators_train_on_the_gpu():
    scenes, _ = scene_corpus(80, n_visual_words=40, mean_length=40)
    options = {**SHAPE, "learning_rate": 0.01, "max_epochs": 40, "random_state": 0}
    model = SupDocNADE(**options, device="cuda").fit(scenes.counts, scenes.labels)
    assert model.score(scenes.counts, scenes.labels) > 0.9
    assert not model.network_.word_embedding.is_cuda
    expected = SupDocNADE(**options, device="cpu").fit(scenes.counts, scenes.labels)
    assert model.perplexity(scenes.counts) == pytest.approx(
        expected.perplexity(scenes.counts), rel=0.02
    )
    own = DocNADE(**{**options, "max_epochs": 2}, activation=torch.tanh, device="cuda")
    assert own.fit(scenes.counts).transform(scenes.counts).shape == (80, 16)
