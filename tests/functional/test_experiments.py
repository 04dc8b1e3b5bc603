"""The readers and measures of the experiments, on small files made here."""

import numpy as np
import pytest
from experiments.common import lda_log_prob_bound
from experiments.data import class_slda, newsgroups, tag_my_news
from experiments.tmn import retrieval_precision
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPDOCNADE_DATA", str(tmp_path))
    for name in ("class_slda", "text/tmn", "text/newsgroups"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_lda_c_files(data):
    for part in ("train", "test"):
        (data / "class_slda" / f"{part}-data.dat").write_text("2 0:3 157:1\n1 5:2\n")
        (data / "class_slda" / f"{part}-label.dat").write_text("4\n0\n")
    train, test = class_slda()
    assert train.counts.shape == (2, 158)
    assert train.counts[0, 0] == 3
    assert train.counts[0, 157] == 1
    assert train.counts.sum() == 6
    assert test.labels.tolist() == [4, 0]


def test_docnade_csv_files(data):
    for part in ("training", "validation", "test"):
        (data / "text" / "tmn" / f"{part}_docnade.csv").write_text("6,0 7 7 1999\n2,5\n")
    train, _, _ = tag_my_news()
    assert train.counts.shape == (2, 2000)
    assert train.counts[0, 7] == 2
    assert train.counts.sum(axis=1).tolist() == [4, 1]
    assert train.labels.tolist() == [6, 2]


def test_words_of_the_newsgroups_count_from_one(data):
    for part in ("train", "test"):
        (data / "text" / "newsgroups" / f"{part}.feat").write_text("1 1:2 1995:1\n1\n")
    train, _ = newsgroups()
    assert train.counts.shape == (2, 1995)
    assert train.counts[0, 0] == 2
    assert train.counts[0, 1994] == 1
    assert train.counts[1].sum() == 0


def test_a_missing_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPDOCNADE_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="class_slda does not exist: set SUPDOCNADE_DATA"):
        class_slda()


def test_retrieval_precision_by_hand():
    # Two directions, one per class; 2 % of 100 are two neighbours.
    train = np.repeat(np.eye(2), 50, axis=0) + 1e-3 * np.random.default_rng(0).random((100, 2))
    labels = np.repeat([0, 1], 50)
    labels[:50:2] = 1
    test, truth = np.array([[0.0, 3.0], [0.0, 1.0]]), np.array([1, 0])
    assert retrieval_precision(train, labels, test, truth) == 0.5


def test_the_bound_of_lda_adds_up_over_documents():
    """Topics belong to the model: two documents together have the sum of their bounds."""
    counts = sparse.csr_array(np.random.default_rng(0).poisson(2, (12, 6)))
    model = LatentDirichletAllocation(2, random_state=0).fit(counts)
    apart = [lda_log_prob_bound(model, counts[[i]]) for i in range(12)]
    assert lda_log_prob_bound(model, counts) == pytest.approx(sum(apart), rel=1e-3)
    # A bound lies below the likelihood of the best possible mixture of the topics.
    frequency = model.components_ / model.components_.sum(axis=1, keepdims=True)
    shares = model.transform(counts)
    likelihood = (counts.toarray() * np.log(shares @ frequency)).sum()
    assert sum(apart) < likelihood
