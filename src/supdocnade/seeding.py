"""Random choices as pure functions of one seed.

- `named_generator` returns a numpy generator for one purpose ("tree", "init", ...), so that more
  draws for one purpose do not change another.
- `token_order` returns the random order of the words of a document in one epoch, and
  `kept_features` the features of a document that dropout keeps. They are counter-based hashes of
  (seed, epoch, document, position), not running streams: an epoch can be resumed in the middle, and
  batches, threads or devices change nothing.
"""

import zlib

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_seed
from supdocnade.errors import InvalidArgument

# SplitMix64 (Steele, Lea, Flood 2014): increment by the golden ratio, then two multiply-xorshifts.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


def named_generator(seed: int, name: str, *counters: int) -> np.random.Generator:
    """Return the generator of a seed for one named purpose.

    >>> bool((named_generator(0, "tree").random(3) == named_generator(0, "tree").random(3)).all())
    True
    >>> bool((named_generator(0, "tree").random(3) == named_generator(0, "init").random(3)).any())
    False
    """
    entropy = [check_seed("seed", seed), zlib.crc32(name.encode()), *counters]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finalize SplitMix64 in place: every input bit affects every output bit."""
    state ^= state >> np.uint64(30)
    state *= MIX_1
    state ^= state >> np.uint64(27)
    state *= MIX_2
    state ^= state >> np.uint64(31)
    return state


def document_keys(
    seed: int, stream: str, epoch: int, documents: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return one 64-bit key per document for this seed, purpose and epoch."""
    key = np.full(1, seed, np.uint64)
    for word in (zlib.crc32(stream.encode()), epoch):
        key = _mix(key + GOLDEN) ^ np.uint64(word)
    return _mix((_mix(key + GOLDEN) ^ documents.astype(np.uint64)) + GOLDEN)


def bag_keys(
    ids_N: NDArray[np.int32], weight_N: NDArray[np.float32] | None, offsets_B1: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a key for every bag of words that depends only on its contents, (B,).

    With keys as document numbers, `token_order` does not depend on positions in the corpus.

    >>> ids = np.array([3, 4, 4, 3], np.int32)
    >>> first, second = bag_keys(ids, None, np.array([0, 2, 4]))
    >>> bool(first == second)
    True
    """
    state = ids_N.astype(np.uint64) << np.uint64(32)
    if weight_N is not None:
        state |= np.ascontiguousarray(weight_N, np.float32).view(np.uint32)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mix(state + GOLDEN))])
    return np.diff(sums[offsets_B1]).view(np.int64)


def token_order(
    seed: int,
    epoch: int,
    documents: NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    stream: str = "ordering",
) -> NDArray[np.int64]:
    """Return a random order of the tokens within every document.

    Parameters
    ----------
    documents : (B,) document numbers, which determine the orders.
    lengths : (B,) numbers of tokens.
    stream : the purpose; other purposes get other orders.

    Returns
    -------
    (N,) int64: entry i is the position, in the concatenation of the documents, of the i-th token.
    The entries of each document are a permutation of its positions.

    Notes
    -----
    Every token gets a 64-bit hash, and the tokens of a document are sorted by it. One sort orders
    the whole batch: its keys are (rank of the document, top bits of the hash, position). The
    position makes keys unique, so every sorting algorithm gives the same order. Equal hash bits,
    the only departure from a uniform order, have probability D² / 2^(bits + 1) in a document of D
    tokens (1.6e-9 for 961 tokens in a batch of 64).

    >>> token_order(0, 0, np.array([7, 9]), np.array([3, 2])).tolist()
    [1, 2, 0, 3, 4]
    """
    n_tokens = int(lengths.sum())
    if n_tokens == 0:
        return np.empty(0, np.int64)
    position_bits = int(lengths.max() - 1).bit_length()
    rank_bits = int(lengths.size - 1).bit_length()
    hash_bits = 64 - position_bits - rank_bits
    if hash_bits < 16:
        raise InvalidArgument(
            f"a batch of {lengths.size} documents of up to {lengths.max()} tokens is too large "
            "to be shuffled; use a smaller batch_size."
        )
    starts = np.cumsum(lengths) - lengths
    rank = np.repeat(np.arange(lengths.size, dtype=np.uint64), lengths)
    position = np.arange(n_tokens, dtype=np.uint64) - np.repeat(starts.astype(np.uint64), lengths)
    key = _mix(
        np.repeat(document_keys(seed, stream, epoch, documents), lengths) + position * GOLDEN
    )
    key >>= np.uint64(64 - hash_bits)
    key <<= np.uint64(position_bits)
    key |= position
    key |= rank << np.uint64(64 - rank_bits) if rank_bits else np.uint64(0)
    key.sort()
    key &= np.uint64((1 << position_bits) - 1)
    return key.astype(np.int64) + np.repeat(starts, lengths)


DROPOUT_BITS = 24
"""Bits of the hash that decide whether dropout keeps a feature."""


def dropout_threshold(rate: float) -> int:
    """Return the number below which the bits of a hash drop a feature."""
    return round(rate * 2.0**DROPOUT_BITS)


def kept_features(
    seed: int, epoch: int, documents: NDArray[np.int64], n_features: int, rate: float
) -> NDArray[np.bool_]:
    """Return which features of each document dropout keeps in an epoch, (B, F).

    Parameters
    ----------
    documents : (B,) document numbers.
    rate : probability that a feature is dropped.

    >>> kept_features(0, 0, np.array([7, 9]), 6, 0.5).astype(int).tolist()
    [[1, 1, 0, 0, 0, 1], [1, 1, 0, 0, 1, 0]]
    """
    key_B1 = document_keys(seed, "dropout", epoch, documents)[:, None]
    hash_BF = _mix(key_B1 + np.arange(n_features, dtype=np.uint64) * GOLDEN)
    kept_BF: NDArray[np.bool_] = hash_BF >> np.uint64(64 - DROPOUT_BITS) >= dropout_threshold(rate)
    return kept_BF
