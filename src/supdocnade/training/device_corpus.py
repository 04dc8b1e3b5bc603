"""Documents that stay on a GPU, and an epoch of them put in order there.

The order of the words of a document in an epoch is that of the CPU (`seeding.token_order`): the
same hashes, sorted on the GPU. What follows from the shuffled documents alone is a few numbers a
document, and comes from here.
"""

from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.corpus import Documents
from supdocnade.seeding import GOLDEN, MIX_1, MIX_2, document_keys

LEAST_HASH_BITS = 16
"""Of the keys by which words are put in order; with fewer, orders would not be random enough."""


BYTES_OF_A_WORD = 96
"""What a word takes while an epoch is put in order: some ten numbers, with those of the sort."""


def most_words(memory: int) -> int:
    """Return how many words can be put in order by a GPU of so many bytes, in half of them.

    >>> most_words(8 * 2**30)
    44739242
    """
    return memory // 2 // BYTES_OF_A_WORD


class OrderedEpoch(NamedTuple):
    """All documents in the order of an epoch, one after the other."""

    ids_N: Tensor
    input_weight_N: Tensor | None
    loss_weight_N: Tensor
    """With everything that multiplies the loss of a word: λ, the document's share of its batch, the
    annotation weight."""
    offsets_B1: Tensor
    label_B: Tensor
    weight_B: Tensor
    """The document's share of its batch: its weight over the number of documents there."""


@dataclass(frozen=True, eq=False)
class ResidentDocuments:
    """The documents of a corpus on a GPU."""

    ids_N: Tensor
    input_weight_N: Tensor | None
    start_B: Tensor
    """The first token of every document."""
    length_B: Tensor
    label_B: Tensor
    weight_B: Tensor
    lengths: NDArray[np.int64]
    """The lengths, here."""
    n_visual_words: int

    @classmethod
    def of(cls, corpus: Documents, device: torch.device) -> "ResidentDocuments":
        """Bring a corpus to a device."""
        ids_N, share_N = corpus.tokens.gather(np.arange(len(corpus)))
        lengths = corpus.length_B
        weight_B = corpus.document_weight_B

        def there(array: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        return cls(
            there(ids_N),
            None if share_N is None else there(share_N),
            there(np.cumsum(lengths) - lengths),
            there(lengths),
            there(corpus.label_B),
            there(np.ones(len(corpus), np.float32) if weight_B is None else weight_B),
            lengths,
            corpus.n_visual_words,
        )

    def __len__(self) -> int:
        """B, the number of documents."""
        return len(self.lengths)

    @property
    def hash_bits(self) -> int:
        """How many bits of the hash of a word fit into its key."""
        position_bits = int(max(self.lengths.max(initial=0) - 1, 0)).bit_length()
        return 63 - position_bits - (len(self) - 1).bit_length()

    def ordered(
        self,
        seed: int,
        epoch: int,
        shuffled_B: NDArray[np.int64],
        batch_size: int,
        *,
        generative_weight: float,
        annotation_weight: float,
    ) -> OrderedEpoch:
        """Put the documents of an epoch, and the words of each, in their order.

        Parameters
        ----------
        shuffled_B : the documents in the order of the epoch; every `batch_size` are a batch.
        """
        device, B, N = self.ids_N.device, len(self), len(self.ids_N)
        documents_B = torch.from_numpy(shuffled_B).to(device, non_blocking=True)
        keys = document_keys(seed, "ordering", epoch, shuffled_B).view(np.int64)
        keys_B = torch.from_numpy(keys).to(device, non_blocking=True)
        length_B = self.length_B[documents_B]
        offsets_B1 = torch.zeros(B + 1, dtype=torch.int64, device=device)
        torch.cumsum(length_B, 0, out=offsets_B1[1:])
        rank_N = torch.repeat_interleave(torch.arange(B, device=device), length_B, output_size=N)
        position_N = torch.arange(N, device=device) - offsets_B1[rank_N]

        position_bits = int(max(self.lengths.max(initial=0) - 1, 0)).bit_length()
        hash_N = mix_(keys_B[rank_N] + position_N * _signed(GOLDEN))
        key_N = _shifted(hash_N, 64 - self.hash_bits) << position_bits
        key_N |= position_N
        key_N |= rank_N << (position_bits + self.hash_bits)
        key_N = torch.sort(key_N).values & ((1 << position_bits) - 1)
        source_N = self.start_B[documents_B][rank_N] + key_N

        ids_N = self.ids_N[source_N]
        sizes = np.full(B, batch_size)
        sizes[B - B % batch_size :] = B % batch_size
        size_B = torch.from_numpy(sizes).to(device, non_blocking=True)
        weight_B = self.weight_B[documents_B] / size_B
        loss_N = (generative_weight * weight_B)[rank_N]
        if annotation_weight != 1.0:
            loss_N = torch.where(ids_N < self.n_visual_words, loss_N, loss_N * annotation_weight)
        input_N = None
        if self.input_weight_N is not None:
            input_N = self.input_weight_N[source_N]
            loss_N = loss_N * input_N
        return OrderedEpoch(ids_N, input_N, loss_N, offsets_B1, self.label_B[documents_B], weight_B)


_RESIDENT: "WeakKeyDictionary[Documents, dict[torch.device, ResidentDocuments]]" = (
    WeakKeyDictionary()
)


def resident_documents(corpus: Documents, device: torch.device) -> ResidentDocuments:
    """Return a corpus on a device; brought there once, for as long as it is used here."""
    there = _RESIDENT.setdefault(corpus, {})
    if device not in there:
        there[device] = ResidentDocuments.of(corpus, device)
    return there[device]


def _signed(number: np.uint64) -> int:
    """Return the bits of a number as torch's int64 has them."""
    return int(np.array(number).view(np.int64))


def _shifted(values: Tensor, bits: int) -> Tensor:
    """Shift to the right and fill with zeros, which `>>` on signed numbers does not."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def mix_(values: Tensor) -> Tensor:
    """Finalise SplitMix64 in place, as `seeding` does on the CPU."""
    for bits, factor in ((30, MIX_1), (27, MIX_2)):
        values ^= _shifted(values, bits)
        values *= _signed(factor)
    values ^= _shifted(values, 31)
    return values
