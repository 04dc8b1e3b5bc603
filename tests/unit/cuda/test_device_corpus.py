"""A corpus on a device is ordered as on the CPU."""

import numpy as np
import pytest
import torch

from supdocnade.corpus import Documents
from supdocnade.cuda.device_corpus import DeviceCorpus
from supdocnade.seeding import document_keys, token_order
from supdocnade.training.objective import drop_features, epoch_batches, make_batch


def corpus(*, fractions: bool) -> Documents:
    rng = np.random.default_rng(0)
    counts = rng.poisson(2.0, (23, 7)).astype(np.float64)
    counts[4] = 0
    if fractions:
        counts *= 0.75
    return Documents.from_counts(
        counts,
        annotations=rng.integers(0, 2, (23, 3)),
        labels=rng.integers(0, 4, 23),
        n_classes=4,
        document_weight=rng.uniform(0.5, 2, 23),
    )


@pytest.mark.parametrize("fractions", [False, True])
def test_an_epoch_has_the_batches_of_the_cpu(fractions):
    documents = corpus(fractions=fractions)
    seed, epoch, size = 11, 3, 5
    parts = epoch_batches(len(documents), size, seed, epoch)
    ordered = DeviceCorpus(documents, torch.device("cpu")).order_epoch(
        seed, epoch, np.concatenate(parts), size, generative_weight=0.5, annotation_weight=3.0
    )
    all_tokens = ordered
    first = 0
    for number, part in enumerate(parts):
        lengths = documents.length_B[part]
        order = token_order(seed, epoch, part, lengths)
        batch = make_batch(documents, part, order, annotation_weight=3.0)
        tokens = slice(first, first + int(lengths.sum()))
        first = tokens.stop
        rows = slice(number * size, number * size + len(part))
        torch.testing.assert_close(all_tokens.word_ids_N[tokens], batch.word_ids_N)
        torch.testing.assert_close(ordered.label_B[rows], batch.label_B)
        torch.testing.assert_close(ordered.weight_B[rows], batch.weight_B / len(part))
        weight_N = torch.repeat_interleave(
            0.5 * batch.weight_B / len(part), torch.from_numpy(lengths)
        )
        torch.testing.assert_close(all_tokens.loss_weight_N[tokens], weight_N * batch.loss_weight_N)
        if fractions:
            torch.testing.assert_close(all_tokens.input_weight_N[tokens], batch.input_weight_N)
        offsets = all_tokens.offsets_B1[rows.start : rows.stop + 1]
        torch.testing.assert_close(offsets - offsets[0], batch.offsets_B1)
    assert first == len(all_tokens.word_ids_N)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_global_features_are_dropped_as_on_the_cpu(rate):
    features = np.random.default_rng(0).normal(size=(9, 31)).astype(np.float32)
    documents = Documents.from_counts(np.ones((9, 1)), global_features=features)
    rows = np.array([4, 0, 8])
    expected = drop_features(make_batch(documents, rows, np.arange(3)), rate, 7, 2, rows)
    keys = torch.from_numpy(document_keys(7, "dropout", 2, rows).view(np.int64))
    on_device = DeviceCorpus(documents, torch.device("cpu"))
    actual = on_device.gather_features(torch.from_numpy(rows), keys, rate)
    assert torch.equal(actual, expected.global_features_BF)
