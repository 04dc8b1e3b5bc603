import numpy as np
import pytest
import torch

from supdocnade.corpus import Documents
from supdocnade.seeding import kept_features
from supdocnade.training.batches import (
    drop_features,
    epoch_batches,
    make_batch,
    ordered_batches,
)

CORPUS = Documents.from_counts(
    [[2, 0.5, 0], [0, 0, 1], [1, 1, 1]],
    annotations=[[1], [0], [2]],
    labels=[0, -1, 1],
    n_classes=2,
    document_weight=[1, 2, 3],
)


def test_a_batch_by_hand():
    order = np.array([4, 3, 2, 1, 0, 8, 7, 6, 5])
    batch = make_batch(CORPUS, np.array([2, 0]), order, annotation_weight=10.0, n_summary_words=3)
    documents = batch.documents
    assert documents.word_ids_N.tolist() == [3, 3, 2, 1, 0, 3, 1, 0, 0]
    assert documents.offsets_B1.tolist() == [0, 5, 9]
    assert documents.input_weight_N is not None
    assert documents.input_weight_N.tolist() == [1, 1, 1, 1, 1, 1, 0.5, 1, 1]
    assert documents.loss_weight_N is not None
    assert documents.loss_weight_N.tolist() == [10, 10, 1, 1, 1, 10, 0.5, 1, 1]
    assert documents.n_summary_words == 3
    assert batch.label_B.tolist() == [1, 0]
    assert batch.weight_B.tolist() == [3, 1]
    assert len(batch) == 2


def test_an_epoch_is_a_partition_and_no_two_epochs_are_alike():
    first, second = (epoch_batches(10, 4, seed=1, epoch=e) for e in (0, 1))
    assert [len(part) for part in first] == [4, 4, 2]
    assert sorted(np.concatenate(first)) == list(range(10))
    assert np.concatenate(first).tolist() != np.concatenate(second).tolist()


def test_evaluation_uses_the_same_order_in_any_batch_size():
    def tokens(size):
        return torch.cat([b.documents.word_ids_N for b in ordered_batches(CORPUS, size, 5, 2)])

    assert torch.equal(tokens(1), tokens(3))
    counts = [np.bincount(tokens(2)[:4], minlength=4), np.bincount(tokens(2)[5:], minlength=4)]
    assert [c.tolist() for c in counts] == [[2, 1, 0, 1], [1, 1, 1, 2]]


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_weights_are_absent_where_all_are_one(weight):
    corpus = Documents.from_counts([[1, 1]], annotations=[[1]] if weight != 1 else None)
    batch = make_batch(corpus, np.array([0]), np.arange(len(corpus.tokens.ids_N)),
                       annotation_weight=weight)  # fmt: skip
    assert batch.documents.input_weight_N is None
    assert (batch.documents.loss_weight_N is None) == (weight == 1.0)


def test_dropout_of_global_features():
    features = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    corpus = Documents.from_counts(np.ones((40, 1)), global_features=features)
    rows = np.arange(39, -1, -1)
    batch = make_batch(corpus, rows, np.arange(40))
    np.testing.assert_array_equal(batch.documents.global_features_BF, features[rows])
    dropped = drop_features(batch, 0.75, 5, 1, rows).documents.global_features_BF.numpy()
    kept = kept_features(5, 1, rows, 50, 0.75)
    np.testing.assert_array_equal(dropped, np.where(kept, 4 * features[rows], 0))
    assert kept.mean() == pytest.approx(0.25, abs=0.03)
    # A document has its own features in each epoch, whatever its batch.
    np.testing.assert_array_equal(kept_features(5, 1, rows[:3], 50, 0.75), kept[:3])
    assert not np.array_equal(kept_features(5, 2, rows, 50, 0.75), kept)
    assert drop_features(batch, 0.0, 5, 1, rows) is batch
