"""Documents that stay on a GPU, and their order in an epoch.

The order of the words of a document in an epoch is that of the CPU (`seeding.token_order`): the
same hashes, sorted on the GPU. Only the shuffled document numbers and one key per document are
copied there for an epoch.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.corpus.documents import Documents
from supdocnade.likelihood.contract import Batch
from supdocnade.seeding import (
    DROPOUT_BITS,
    GOLDEN,
    MIX_1,
    MIX_2,
    document_keys,
    dropout_threshold,
)
from supdocnade.training.objective import make_batch

MIN_HASH_BITS = 16
"""Bits of the hash in a sort key; with fewer, orders would not be random enough."""

BYTES_PER_TOKEN = 96
"""Memory per token while an epoch is ordered: about ten numbers, including those of the sort."""


def max_tokens(memory: int) -> int:
    """Return the number of tokens that fit into half of a GPU's memory in bytes.

    >>> max_tokens(8 * 2**30)
    44739242
    """
    return memory // 2 // BYTES_PER_TOKEN


class DeviceCorpus:
    """The documents of a corpus, copied to a device."""

    def __init__(self, corpus: Documents, device: torch.device):
        rows_B, order_N = np.arange(len(corpus)), np.arange(int(corpus.length_B.sum()))
        # The loss weights are made for every epoch.
        batch = make_batch(corpus, rows_B, order_N)._replace(loss_weight_N=None)
        self.batch = batch.to(device)
        self.n_visual_words = corpus.n_visual_words
        self.lengths = corpus.length_B
        """Lengths of the documents, on the CPU."""

    def __len__(self) -> int:
        """B, the number of documents."""
        return len(self.lengths)

    @property
    def position_bits(self) -> int:
        """Bits of the position of a token within its document."""
        return int(max(self.lengths.max(initial=0) - 1, 0)).bit_length()

    @property
    def hash_bits(self) -> int:
        """Bits of the hash of a token that fit into its sort key."""
        return 63 - self.position_bits - (len(self) - 1).bit_length()

    def gather_features(self, rows_B: Tensor, key_B: Tensor, rate: float) -> Tensor:
        """Return the global features of documents, a part of them dropped as on the CPU, (B, F).

        Parameters
        ----------
        key_B : keys of these documents for dropout in this epoch.
        rate : probability that a feature is dropped.
        """
        assert self.batch.global_features_BF is not None, "the corpus has global features"
        features_BF = self.batch.global_features_BF[rows_B]
        if rate == 0:
            return features_BF
        step_F = torch.arange(features_BF.shape[1], device=rows_B.device) * _as_signed(GOLDEN)
        bits_BF = _shift_right(mix_(key_B[:, None] + step_F), 64 - DROPOUT_BITS)
        return features_BF * (bits_BF >= dropout_threshold(rate)) * (1 / (1 - rate))

    def order_epoch(
        self,
        seed: int,
        epoch: int,
        shuffled_B: NDArray[np.int64],
        batch_size: int,
        *,
        generative_weight: float,
        annotation_weight: float,
    ) -> Batch:
        """Return all documents in the order of an epoch, their words in random order.

        The weight of a document is divided by the number of documents of its batch. The loss
        weight of a word includes λ, the weight of its document and the annotation weight.

        Parameters
        ----------
        shuffled_B : documents in the order of the epoch; every `batch_size` of them are a batch.
        """
        documents, B, N = self.batch, len(self), len(self.batch.word_ids_N)
        device = documents.word_ids_N.device
        rows_B = torch.from_numpy(shuffled_B).to(device, non_blocking=True)
        keys = document_keys(seed, "ordering", epoch, shuffled_B).view(np.int64)
        keys_B = torch.from_numpy(keys).to(device, non_blocking=True)
        length_B = documents.offsets_B1.diff()[rows_B]
        offsets_B1 = torch.zeros(B + 1, dtype=torch.int64, device=device)
        torch.cumsum(length_B, 0, out=offsets_B1[1:])
        rank_N = torch.repeat_interleave(torch.arange(B, device=device), length_B, output_size=N)
        position_N = torch.arange(N, device=device) - offsets_B1[rank_N]

        hash_N = mix_(keys_B[rank_N] + position_N * _as_signed(GOLDEN))
        key_N = _shift_right(hash_N, 64 - self.hash_bits) << self.position_bits
        key_N |= position_N
        key_N |= rank_N << (self.position_bits + self.hash_bits)
        position_N = torch.sort(key_N).values & ((1 << self.position_bits) - 1)
        source_N = documents.offsets_B1[rows_B][rank_N] + position_N

        ids_N = documents.word_ids_N[source_N]
        sizes = np.full(B, batch_size)
        sizes[B - B % batch_size :] = B % batch_size
        weight_B = torch.ones(B, device=device)
        if documents.weight_B is not None:
            weight_B = documents.weight_B[rows_B]
        weight_B = weight_B / torch.from_numpy(sizes).to(device, non_blocking=True)
        loss_N = (generative_weight * weight_B)[rank_N]
        if annotation_weight != 1.0:
            loss_N = torch.where(ids_N < self.n_visual_words, loss_N, loss_N * annotation_weight)
        input_N = None
        if documents.input_weight_N is not None:
            input_N = documents.input_weight_N[source_N]
            loss_N = loss_N * input_N
        label_B, tag_BA, label_BC = (
            None if table is None else table[rows_B]
            for table in (documents.label_B, documents.tag_BA, documents.label_BC)
        )
        return Batch(
            ids_N, offsets_B1, input_N, loss_N, label_B=label_B, weight_B=weight_B,
            tag_BA=tag_BA, label_BC=label_BC,
        )  # fmt: skip


def _as_signed(number: np.uint64) -> int:
    """Return the value of the same bits as a signed integer, as torch's int64 needs it."""
    return int(np.array(number).view(np.int64))


def _shift_right(values: Tensor, bits: int) -> Tensor:
    """Shift to the right and fill with zeros, which `>>` on signed numbers does not."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def mix_(values: Tensor) -> Tensor:
    """Finalize SplitMix64 in place, as `seeding` does on the CPU."""
    for bits, factor in ((30, MIX_1), (27, MIX_2)):
        values ^= _shift_right(values, bits)
        values *= _as_signed(factor)
    values ^= _shift_right(values, 31)
    return values
