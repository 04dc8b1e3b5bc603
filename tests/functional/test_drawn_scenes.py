"""Visual words separate the classes of drawn scenes; colour and layout do not.

    pytest tests/functional/test_drawn_scenes.py -s

prints the accuracies.
"""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from supdocnade.demo import CLASSES, drawn_scenes
from supdocnade.images.decode import decode
from supdocnade.images.dense_sift import dense_sift
from supdocnade.images.regions import Regions
from supdocnade.visual_words.codebook import fit_codebook

N_TRAIN, N_TEST, N_WORDS = 25, 15, 160


@pytest.fixture(scope="module")
def scenes():
    return drawn_scenes(N_TRAIN + N_TEST)


@pytest.fixture(scope="module")
def grey(scenes):
    return [decode(scene.image) for scene in scenes]


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(threads)


def training_mask(n_scenes):
    return np.arange(n_scenes) % (N_TRAIN + N_TEST) < N_TRAIN


def accuracies(name, scenes, features):
    """Return the test accuracies of an RBF SVM and of logistic regression."""
    labels = np.array([CLASSES.index(scene.label) for scene in scenes])
    train = training_mask(len(scenes))
    found = []
    for model in (SVC(C=10), LogisticRegression(C=0.1, max_iter=1000)):
        fitted = make_pipeline(StandardScaler(), model).fit(features[train], labels[train])
        found.append(fitted.score(features[~train], labels[~train]))
    print(f"\n{name}: SVM {found[0]:.1%}, logistic regression {found[1]:.1%}")
    return found


def test_colours_do_not_separate_the_classes(scenes):
    bins = np.array([64, 8, 1])
    histograms = [
        np.bincount((scene.image // 32 @ bins).ravel(), minlength=512) for scene in scenes
    ]
    assert max(accuracies("colour histograms", scenes, np.sqrt(histograms))) < 0.38


def test_small_pictures_do_not_separate_the_classes(scenes, grey):
    pixels = np.stack([image.reshape(12, 16, 16, 16).mean(axis=(1, 3)).ravel() for image in grey])
    assert max(accuracies("16 × 12 pixels", scenes, pixels)) < 0.45


def test_visual_words_separate_the_classes(scenes, grey):
    descriptors = [dense_sift(image) for image in grey]
    rng = np.random.default_rng(0)
    train = training_mask(len(scenes))
    sample = np.concatenate(
        [
            rng.permutation(each.values_SD)[:60]
            for each, is_train in zip(descriptors, train, strict=True)
            if is_train
        ]
    )
    codebook = fit_codebook(sample, N_WORDS, seed=0)
    regions = Regions.of((2, 2))
    counts = []
    for image, each in zip(grey, descriptors, strict=True):
        cells = regions.cells(each.centres_S2, image.shape)
        words = regions.words(codebook.assign(each.values_SD)[:, None], cells, N_WORDS)
        counts.append(np.bincount(words, minlength=N_WORDS * regions.n_regions))
    assert min(accuracies("visual words", scenes, np.sqrt(counts))) > 0.88


def test_tags_correlate_with_the_class_without_revealing_it(scenes):
    tags = sorted({tag for scene in scenes for tag in scene.tags})
    features = np.array([[tag in scene.tags for tag in tags] for scene in scenes], float)
    svm, regression = accuracies("tags", scenes, features)
    assert min(svm, regression) > 0.5
    assert max(svm, regression) < 1
