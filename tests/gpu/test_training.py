"""Training on a GPU: the losses of the CPU, reproducible bits."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tests.planted_corpus import global_features, network_for

from supdocnade import DocNADE, SupDocNADE
from supdocnade.corpus import Documents
from supdocnade.cuda.graph_updates import GraphTrainer
from supdocnade.likelihood.operations import use_backend
from supdocnade.training.config import TrainerConfig
from supdocnade.training.trainer import Trainer, make_trainer

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU that torch can use"
)

N_VISUAL, N_TAGS, N_CLASSES = 60, 10, 3


def counts(n_documents: int, seed: int):
    rng = np.random.default_rng(seed)
    labels = np.arange(n_documents) % N_CLASSES
    mixtures = np.random.default_rng(0).dirichlet(np.full(N_VISUAL, 0.1), N_CLASSES)
    bags = np.stack([rng.multinomial(rng.integers(50, 90), mixtures[y]) for y in labels])
    tags = rng.random((n_documents, N_TAGS)) < 0.2 + 0.5 * (labels[:, None] == np.arange(N_TAGS))
    return bags, labels, tags.astype(np.int64)


def documents(
    n_documents: int = 150,
    seed: int = 1,
    *,
    n_global_features: int = 0,
    annotations_are_words: bool = True,
    several_labels: bool = False,
) -> Documents:
    bags, labels, tags = counts(n_documents, seed)
    table = np.where(np.arange(n_documents)[:, None] % 7 == 3, -1, tags[:, :N_CLASSES])
    return Documents.from_counts(
        bags,
        annotations=tags,
        labels=table if several_labels else labels,
        n_classes=N_CLASSES,
        global_features=global_features(labels, n_global_features),
        annotations_are_words=annotations_are_words,
    )


def trainer(corpus: Documents, device: str, *, seed: int = 0, max_epochs: int = 6, **options):
    network = network_for(corpus, n_topics=20, seed=seed).to(device)
    checkpoint, class_weight = (options.pop(name, None) for name in ("checkpoint", "class_weight"))
    settings = {"generative_weight": 0.05, "annotation_weight": 4.0, "learning_rate": 3e-3}
    training = TrainerConfig(
        **{**settings, "batch_size": 32, **options}, max_epochs=max_epochs, seed=seed
    )
    return make_trainer(network, training, checkpoint=checkpoint, class_weight=class_weight)


def train_and_stop(one: Trainer, corpus: Documents, n_epochs: int) -> None:
    """Train for some epochs, and stop within the next."""

    def stop(_, done, total):
        if done * one.config.max_epochs > n_epochs * total:
            raise InterruptedError

    one.progress = stop
    with pytest.raises(InterruptedError):
        one.fit(corpus)


def parameters(of: Trainer) -> list[torch.Tensor]:
    return [p.detach().cpu() for p in of.network.parameters()]


def assert_same_bits(first: Trainer, second: Trainer):
    for a, b in zip(parameters(first), parameters(second), strict=True):
        assert torch.equal(a, b)


def train_as_on_a_cpu(
    corpus: Documents, unseen: Documents | None, rel: float, **options
) -> Trainer:
    """Train on both devices, compare their losses, and return the trainer on the GPU."""
    on_cpu, on_gpu = (trainer(corpus, device, **options) for device in ("cpu", "cuda"))
    expected, actual = (each.fit(corpus, unseen) for each in (on_cpu, on_gpu))
    for a, e in zip(actual.epochs, expected.epochs, strict=True):
        assert a.loss == pytest.approx(e.loss, rel=rel)
        assert a.learning_rate == pytest.approx(e.learning_rate)
        if unseen is not None:
            assert a.validation["loss"] == pytest.approx(e.validation["loss"], rel=rel)
    return on_gpu


@pytest.mark.parametrize(
    ("options", "rel"),
    [
        ({}, 1e-4),
        ({"clip_norm": 0.5}, 1e-4),
        ({"optimizer": "sgd", "learning_rate": 1e-2, "generative_weight": 1.0}, 1e-4),
        ({"optimizer": "sgd", "learning_rate": 1e-2}, 1e-3),
        ({"class_weight": [3.0, 1.0, 0.5]}, 1e-3),
        ({"batch_size": 1, "max_epochs": 2}, 1e-3),
        ({"batch_size": 1000}, 1e-3),
        ({"generative_weight": 0.0}, 1e-3),
    ],
)
def test_the_losses_of_the_cpu(options, rel):
    train_as_on_a_cpu(documents(), documents(60, seed=2), rel, **options)


@pytest.mark.parametrize("options", [{}, {"optimizer": "sgd", "learning_rate": 1e-2}])
def test_global_features_and_logistic_outputs(options, tmp_path):
    corpus, unseen = (
        documents(n, n, n_global_features=40, annotations_are_words=False) for n in (150, 60)
    )
    on_gpu = train_as_on_a_cpu(corpus, unseen, 1e-3, **options)
    stopped = trainer(corpus, "cuda", **options, checkpoint=tmp_path / "run")
    train_and_stop(stopped, corpus, 3)
    resumed = trainer(corpus, "cuda", **options, checkpoint=tmp_path / "run")
    resumed.fit(corpus)
    assert_same_bits(resumed, on_gpu)


@pytest.mark.parametrize("options", [{}, {"class_weight": [3.0, 1.0, 0.5], "clip_norm": 0.5}])
def test_several_labels_per_document(options):
    corpus, unseen = (documents(n, n, several_labels=True) for n in (150, 60))
    on_gpu = train_as_on_a_cpu(corpus, unseen, 1e-3, **options)
    again = trainer(corpus, "cuda", **options)
    again.fit(corpus)
    assert_same_bits(again, on_gpu)


def test_documents_without_words_and_a_single_word():
    nothing, labels = np.zeros((20, 5)), np.arange(20) % 2
    for bags in (nothing, np.full((20, 1), 3)):
        fitted = SupDocNADE(device="cuda", max_epochs=2, random_state=0)
        assert np.isfinite(fitted.fit(bags, labels).predict_proba(bags)).all()


def test_bits_are_reproducible():
    corpus = documents()
    first, second = trainer(corpus, "cuda"), trainer(corpus, "cuda")
    for each in (first, second):
        losses = [epoch.loss for epoch in each.fit(corpus).epochs]
        assert len(losses) == 6
        assert losses[-1] < 0.9 * losses[0]
    assert_same_bits(first, second)


def test_a_stopped_run_resumes_with_the_same_bits(tmp_path):
    corpus = documents()
    whole = trainer(corpus, "cuda")
    whole.fit(corpus)
    path = tmp_path / "checkpoint.safetensors"
    first = trainer(corpus, "cuda", checkpoint=path)
    train_and_stop(first, corpus, 3)
    second = trainer(corpus, "cuda", checkpoint=path)
    second.fit(corpus)
    assert_same_bits(second, whole)


def test_an_eager_run_resumes_as_a_recorded_one(tmp_path, monkeypatch):
    """With λ = 0, V has no gradient in eager updates, and no moments until one is recorded."""
    corpus, path = documents(), tmp_path / "checkpoint.safetensors"
    first = trainer(corpus, "cuda", generative_weight=0.0, checkpoint=path)
    with monkeypatch.context() as patch:
        patch.setattr(GraphTrainer, "updates_for", lambda self, documents: None)
        train_and_stop(first, corpus, 1)
    second = trainer(corpus, "cuda", generative_weight=0.0, checkpoint=path)
    history = second.fit(corpus)
    expected = trainer(corpus, "cpu", generative_weight=0.0).fit(corpus)
    assert history.epochs[-1].loss == pytest.approx(expected.epochs[-1].loss, rel=1e-3)


def test_plain_torch_trains_on_a_gpu():
    bags, labels, tags = counts(60, seed=1)
    fitted = SupDocNADE(device="cuda", n_topics=5, max_epochs=2)
    with use_backend("vectorized"):
        fitted.fit(bags, labels, annotations=tags)
    assert np.isfinite(fitted.predict_proba(bags)).all()


@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_estimators_train_on_the_gpu_and_predict_on_the_cpu(output):
    bags, labels, tags = counts(150, seed=1)
    options = {
        "n_topics": 20,
        "max_epochs": 4,
        "random_state": 0,
        "learning_rate": 3e-3,
        "output": output,
    }
    on_gpu = SupDocNADE(device="cuda", **options).fit(bags, labels, annotations=tags)
    on_cpu = SupDocNADE(device="cpu", **options).fit(bags, labels, annotations=tags)
    assert not on_gpu.network_.word_embedding.is_cuda
    np.testing.assert_allclose(on_gpu.predict_proba(bags), on_cpu.predict_proba(bags), atol=0.02)
    assert on_gpu.perplexity(bags) == pytest.approx(on_cpu.perplexity(bags), rel=1e-3)
    words = DocNADE(device="cuda", **options).fit(bags)
    assert np.isfinite(words.log_prob(bags)).all()


def test_a_run_that_diverges_says_so():
    from supdocnade.errors import TrainingDiverged

    corpus = documents()
    with pytest.raises(TrainingDiverged, match="epoch"):
        trainer(corpus, "cuda", learning_rate=1e30, max_epochs=3).fit(corpus)


def test_two_threads_train_at_the_same_time():
    corpus = documents()
    alone = [trainer(corpus, "cuda", seed=seed) for seed in (0, 1)]
    for each in alone:
        each.fit(corpus)
    at_once = [trainer(corpus, "cuda", seed=seed) for seed in (0, 1)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda each: each.fit(corpus), at_once))
    for each, expected in zip(at_once, alone, strict=True):
        assert_same_bits(each, expected)


def test_batches_of_very_different_length():
    rng = np.random.default_rng(0)
    lengths = np.where(np.arange(90) < 5, 400, 3)
    bags = np.stack([rng.multinomial(n, np.full(N_VISUAL, 1 / N_VISUAL)) for n in lengths])
    bags[7] = 0
    corpus = Documents.from_counts(
        bags, annotations=np.zeros((90, N_TAGS)), labels=np.arange(90) % 3, n_classes=3
    )
    train_as_on_a_cpu(corpus, None, 1e-4)
