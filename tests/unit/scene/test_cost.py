from types import SimpleNamespace

import pytest
from tests.textures import stripes

from supdocnade import BagOfVisualWords
from supdocnade.estimators.settings import VisualWordSettings
from supdocnade.scene.cost import (
    COUNT_BYTES,
    COUNT_COPIES,
    RECORD_BYTES,
    START_BYTES,
    START_SECONDS,
    SVM_CLASS_WORK,
    SVM_WORK,
    Speed,
    estimate_bytes,
    estimate_corpus_fit,
    estimate_fit,
    estimate_seconds,
    measure_speed,
)
from supdocnade.scene.dataset import read_photographs
from supdocnade.scene.settings import SceneSettings

LABELS = ["coast", "street"] * 5
READING = Speed(read=1.0, describe=2.0, multiply=0.0, n_patches=100, n_columns=128)
COMPUTING = Speed(read=0.0, describe=0.0, multiply=1.0, n_patches=100, n_columns=128)


def settings(**given):
    return SceneSettings(**given).check()


def test_photographs_are_inspected_sampled_and_encoded():
    # Each is read three times and described twice.
    assert estimate_seconds(LABELS, settings(), READING, 1) == START_SECONDS + 10 * (3 + 2 * 2)
    assert estimate_seconds(LABELS, settings(), READING, 2) == START_SECONDS + 5 * (3 + 2 * 2)
    # Words that stay need no sample.
    more = estimate_seconds(LABELS, settings(), READING, 1, before=["coast"])
    assert more == START_SECONDS + 10 * (2 + 2)
    network = estimate_seconds(LABELS, settings(features="network"), READING, 1)
    assert network == START_SECONDS + 10 * (3 + 2 * 2)
    # 100,000 patches are drawn from 1,562 photographs at most.
    many = estimate_seconds([None] * 10_000, settings(), READING, 1)
    assert many == START_SECONDS + 10_000 * (2 + 2) + 1562 * (1 + 2)


def test_sift_words_beside_those_of_a_network_cost_their_description():
    """Photographs are read again for the sample, and described twice."""
    network = settings(features="marvel")
    both = READING._replace(sift=Speed(0.5, 0.25, 0.0, 400, 128))
    seconds = [estimate_seconds(LABELS, network, speed, 1) for speed in (READING, both)]
    assert seconds[1] - seconds[0] == len(LABELS) * (1.0 + 2 * 0.25)
    many = [f"class {number % 5}" for number in range(5000)]
    # 1,562 photographs have 100,000 patches, 64 of each.
    seconds = [estimate_seconds(many, network, speed, 1) for speed in (READING, both)]
    assert seconds[1] - seconds[0] == 5000 * 0.25 + 1562 * (1.0 + 0.25)
    sizes = [estimate_bytes(many, network, speed) for speed in (READING, both)]
    # 400 more words per photograph, half of them different.
    assert sizes[1] - sizes[0] == 5000 * 200 * COUNT_BYTES * COUNT_COPIES


def test_the_work_of_an_svm_grows_with_the_square():
    def extra(labels, n_workers=1, **given):
        with_svm, without = (
            estimate_seconds(labels, settings(classifier=each, **given), COMPUTING, n_workers)
            for each in ("svm", "softmax")
        )
        return with_svm - without

    pair = SVM_WORK + 2 * SVM_CLASS_WORK
    assert extra(LABELS, held_out=0) == pytest.approx(10**2 * pair)
    assert extra([*LABELS, None], held_out=0) == pytest.approx(10**2 * pair)
    shared = SVM_WORK + SVM_CLASS_WORK  # Threads share the work of the classes alone.
    assert extra(LABELS, 2, held_out=0) == pytest.approx(10**2 * shared)
    # Three numbers of epochs with twelve settings of an SVM, and the best one again.
    assert extra(LABELS, held_out=0.5) == pytest.approx(10**2 * (39 / 4 + 1) * pair)
    assert extra(["coast"] * 10) == 0


def test_epochs_and_trials_multiply_the_work_of_topics():
    def topics(**given):
        some = settings(classifier="softmax", **given)
        nothing = settings(classifier="softmax", **{**given, "n_topics": 1})
        return estimate_seconds(LABELS, some, COMPUTING, 1) - estimate_seconds(
            LABELS, nothing, COMPUTING, 1
        )

    once = topics(n_topics=2, held_out=0)
    assert topics(n_topics=3, held_out=0) == pytest.approx(2 * once)
    assert topics(n_topics=2, held_out=0, max_epochs=80) == pytest.approx(2 * once)
    assert topics(n_topics=2, held_out=0.2) == pytest.approx(1.8 * once)
    assert topics(n_topics=2, held_out=0.2, tune=True, tune_trials=4) == pytest.approx(4.2 * once)


def test_memory_is_that_of_the_sample_or_of_counts_and_an_svm():
    small = estimate_bytes(LABELS, settings(), READING)
    assert small == START_BYTES + 2 * (1000 * 128 * 4 + 2**27)
    many = ["coast", "street"] * 3000
    counts = 6_000 * 100 * 12 * 4
    assert estimate_bytes(many, settings(), READING) == START_BYTES + counts + 24 * 6_000**2
    # The kernel of so many is approximated.
    many, larger = ["coast", "street"] * 7000, READING._replace(n_patches=2000)
    counts = 14_000 * 2000 * 12 * 4
    kernel = 24 * 10_000 * 500
    assert estimate_bytes(many, settings(), larger) == START_BYTES + counts + kernel
    svm = estimate_bytes(many, settings(classifier="svm"), larger)
    assert svm == START_BYTES + counts + 24 * 14_000**2


def test_the_speed_of_photographs_that_can_be_read():
    describer, images = VisualWordSettings(max_side=64).check()[0], [stripes(0), stripes(1)]
    speed = measure_speed([b"no image", *images], describer, "cpu")
    values = describer.describe(describer.read(images[0])).values_SD
    assert (speed.n_patches, speed.n_columns) == values.shape
    assert 0 < speed.multiply < 1e-6
    assert 0 < speed.describe < 60
    assert measure_speed([b"no image"], describer, "cpu") is None


def test_the_cost_of_adding_counts_the_photographs_before():
    describer = VisualWordSettings(max_side=64).check()[0]
    before = SimpleNamespace(photographs=SimpleNamespace(labels=["coast", "street"] * 3000))
    encoder = SimpleNamespace(describer=describer)
    previous = SimpleNamespace(encoder=encoder, training_set=before)
    photographs = read_photographs([stripes(0), stripes(1)], ["coast", None])
    _, n_bytes = estimate_fit(photographs, settings(), previous=previous)
    assert n_bytes > START_BYTES + 24 * 6001**2
    assert estimate_fit(read_photographs([b"no image"]), settings()) is None


def test_a_corpus_is_not_read_but_learned_from(tmp_path):
    words = BagOfVisualWords(n_words=9, random_state=0).fit([stripes(n) for n in range(6)])
    images = [stripes(number) for number in range(4)]
    corpus, _ = words.encode_corpus(images, tmp_path / "corpus", labels=["coast", "street"] * 2)
    few, more = (
        estimate_corpus_fit(corpus, SceneSettings(max_epochs=epochs)) for epochs in (1, 10**7)
    )
    assert START_SECONDS < few[0] < START_SECONDS + 1 < more[0]
    assert few[1] == more[1] >= START_BYTES + 4 * RECORD_BYTES
