"""Hidden units and the gradient of the word embedding on a GPU."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from supdocnade.likelihood.contract import DocumentBatch, Parameters
from supdocnade.likelihood.cuda import prefix_kernels as kernels

CHUNK, COLUMNS = 16, 256
"""Tokens and columns a program takes: one warp, 128 registers a thread. Rows of up to so many
columns are read and written in one piece, which is worth more than longer chunks."""

SCAN_ROWS, SCAN_COLUMNS = 64, 32
"""Chunks and columns that a program takes at a time which adds up those of a document."""

ALIGNED = 16
"""Rows of our own tables begin at multiples of this, whatever H is: also in bf16 at the 32 bytes in
which a GPU reads and writes its memory."""


def stride_of(n_topics: int) -> int:
    """Return the distance between rows of a table of our own."""
    return -(-n_topics // ALIGNED) * ALIGNED


def columns_of(n_topics: int, most: int) -> int:
    """Return how many columns a program takes: a power of two, and not too many of them."""
    power: int = triton.next_power_of_2(n_topics)
    return min(max(power, 16), most)


class Pieces(NamedTuple):
    """Ranges of rows that follow one another, each cut into pieces of one length."""

    owner_P: Tensor
    """The range of every piece; -1 for an empty one: only the GPU knows how many are needed."""
    start_P: Tensor
    """The first row of every piece."""


def cut_into_pieces(bounds_B1: Tensor, n_rows: int, length: int) -> Pieces:
    """Cut ranges into pieces, on the GPU.

    Parameters
    ----------
    bounds_B1 : range b has the rows `bounds[b]:bounds[b + 1]`.
    n_rows : the most rows that there can be.
    """
    B = len(bounds_B1) - 1
    n_pieces = B + n_rows // length

    owner_P = torch.empty(n_pieces, dtype=torch.int32, device=bounds_B1.device)
    start_P = torch.empty(n_pieces, dtype=torch.int64, device=bounds_B1.device)
    kernels.find_pieces[(triton.cdiv(n_pieces, 128),)](
        bounds_B1, owner_P, start_P, B, n_pieces, search_steps(B), LENGTH=length, BLOCK=128
    )
    return Pieces(owner_P, start_P)


def search_steps(n_places: int) -> int:
    """Return the steps of a search that looks at sixteen places at once (`places_to_look_at`)."""
    return max(-(-n_places.bit_length() // 4), 1)


@dataclass(frozen=True, eq=False)
class Chunks:
    """The documents of a batch, cut into chunks."""

    batch: DocumentBatch
    pieces: Pieces

    @classmethod
    def of(cls, batch: DocumentBatch) -> "Chunks":
        """Cut documents."""
        return cls(batch, cut_into_pieces(batch.offsets_B1, len(batch.word_ids_N), CHUNK))

    @property
    def n_chunks(self) -> int:
        """The most chunks that there can be."""
        return len(self.pieces.owner_P)

    @property
    def n_tokens(self) -> Tensor:
        """How many tokens there are, on the GPU; the tables of a batch may be longer."""
        return self.batch.offsets_B1[-1:]

    @property
    def tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """By which a program finds its tokens."""
        return self.batch.offsets_B1, self.pieces.owner_P, self.pieces.start_P

    @property
    def words(self) -> tuple[Tensor, Tensor]:
        """The words and their input weights; anything where there are none."""
        return self.batch.word_ids_N, _or_any(self.batch.input_weight_N, self.batch.offsets_B1)


def _or_any(given: Tensor | None, anything: Tensor) -> Tensor:
    """Return what was given, or something to point at."""
    return anything if given is None else given


def _per_chunk(chunks: Chunks, H: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the programs of a kernel that takes a chunk each, and its options."""
    block = columns_of(H, COLUMNS)
    options = {"H": H, "CHUNK": CHUNK, "BLOCK": block, "num_warps": 1}
    return (chunks.n_chunks, triton.cdiv(H, block)), options


def _per_document(chunks: Chunks, H: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the programs of a kernel that takes a document each, and its options."""
    block = columns_of(H, SCAN_COLUMNS)
    options = {"H": H, "CHUNK": CHUNK, "ROWS": SCAN_ROWS, "BLOCK": block, "num_warps": 1}
    return (chunks.batch.n_documents, triton.cdiv(H, block)), options


def hidden_units(
    chunks: Chunks, parameters: Parameters, activation: str, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return h_i of every token, (N, stride) in a given type, and the summary of every document."""
    batch = chunks.batch
    W_KH, c_H = parameters.word_embedding_KH, parameters.hidden_bias_H
    K, H = W_KH.shape
    limited = batch.n_summary_words is not None and batch.n_summary_words < K
    sums_CH = W_KH.new_empty(chunks.n_chunks, H)
    below_CH = torch.empty_like(sums_CH) if limited else sums_CH
    summary_BH = W_KH.new_empty(batch.n_documents, H)
    hidden_NS = torch.empty(len(batch.word_ids_N), stride_of(H), dtype=dtype, device=W_KH.device)
    per_chunk, options = _per_chunk(chunks, H)
    options["WEIGHTED"] = batch.input_weight_N is not None
    tables = (*chunks.words, *chunks.tables, W_KH)
    kernels.sum_embeddings[per_chunk](
        *tables, sums_CH, below_CH, batch.n_summary_words or 0, LIMITED=limited, **options
    )
    per_document, scanning = _per_document(chunks, H)
    if limited:
        kernels.add_chunks[per_document](batch.offsets_B1, below_CH, c_H, summary_BH, **scanning)
    totals_BH = torch.empty_like(summary_BH) if limited else summary_BH
    kernels.scan_chunks[per_document](
        batch.offsets_B1, sums_CH, c_H, totals_BH, REVERSE=False, BIASED=True, **scanning
    )
    kernels.write_hidden[per_chunk](
        *tables, sums_CH, hidden_NS, STRIDE=hidden_NS.shape[1], ACTIVATION=activation, **options
    )
    return hidden_NS, summary_BH


class GradientSums(NamedTuple):
    """Sums of the gradients of activations."""

    after_CH: Tensor
    """Over the chunks of its document after every chunk."""
    total_BH: Tensor
    """Over every document."""


def sum_gradients(chunks: Chunks, gradient_NS: Tensor, H: int) -> GradientSums:
    """Add up the gradients of activations of chunks and documents."""
    batch = chunks.batch
    sums_CH = torch.empty(chunks.n_chunks, H, dtype=torch.float32, device=gradient_NS.device)
    total_BH = sums_CH.new_empty(batch.n_documents, H)
    per_chunk, options = _per_chunk(chunks, H)
    kernels.sum_gradients[per_chunk](
        gradient_NS, *chunks.tables, sums_CH, STRIDE=gradient_NS.shape[1], **options
    )
    per_document, scanning = _per_document(chunks, H)
    kernels.scan_chunks[per_document](
        batch.offsets_B1, sums_CH, sums_CH, total_BH, REVERSE=True, BIASED=False, **scanning
    )
    return GradientSums(sums_CH, total_BH)


def write_suffixes(
    chunks: Chunks,
    gradient_NS: Tensor,
    after_CH: Tensor,
    scale: Tensor,
    grad_summary_BH: Tensor | None,
) -> None:
    """Replace gradients of activations by what each token gives to the gradient of W.

    Parameters
    ----------
    scale : one number on the GPU that multiplies all of them.
    """
    batch = chunks.batch
    per_chunk, options = _per_chunk(chunks, after_CH.shape[1])
    limit = 2**31 - 1 if batch.n_summary_words is None else batch.n_summary_words
    kernels.write_suffixes[per_chunk](
        *chunks.words, gradient_NS, scale, *chunks.tables, after_CH,
        _or_any(grad_summary_BH, after_CH), limit,
        STRIDE=gradient_NS.shape[1], WEIGHTED=batch.input_weight_N is not None,
        SUMMARIZED=grad_summary_BH is not None, **options,
    )  # fmt: skip


def add_documents(total_BH: Tensor, scale: Tensor, grad_summary_BH: Tensor | None) -> Tensor:
    """Return the gradient of c, (H,)."""
    n_documents, H = total_BH.shape
    grad_c_H = total_BH.new_empty(H)
    block = columns_of(H, 32)
    kernels.add_documents[(triton.cdiv(H, block),)](
        total_BH, scale, _or_any(grad_summary_BH, total_BH), grad_c_H, n_documents,
        H=H, ROWS=64, BLOCK=block, SUMMARIZED=grad_summary_BH is not None,
    )  # fmt: skip
    return grad_c_H


def sum_documents(values_N: Tensor, batch: DocumentBatch) -> Tensor:
    """Return the sum of the values of the tokens of every document, (B,)."""
    totals_B = values_N.new_empty(batch.n_documents)
    if batch.n_documents:
        kernels.sum_documents[(batch.n_documents,)](values_N, batch.offsets_B1, totals_B, BLOCK=256)
    return totals_B
