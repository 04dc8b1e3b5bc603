"""Prefix and suffix sums over documents on a GPU: hidden units and the gradient of W."""

from typing import Any

import torch
import triton
from torch import Tensor

from supdocnade.cuda import prefix_kernels as kernels
from supdocnade.likelihood.contract import Batch, Parameters

CHUNK, COLUMNS = 16, 256
"""Tokens and columns per program: one warp, 128 registers per thread. Rows of up to 256 columns are
then read and written in one piece, which gains more than longer chunks."""

SCAN_ROWS, SCAN_COLUMNS = 64, 32
"""Chunks of a document and columns that a program scans at a time."""

ALIGNMENT = 16
"""Rows of internal tables start at multiples of this many numbers, whatever H is: also in bf16 at
the 32 bytes in which a GPU accesses its memory."""


def row_stride(n_topics: int) -> int:
    """Return the distance between the rows of an internal table."""
    return -(-n_topics // ALIGNMENT) * ALIGNMENT


def block_columns(n_columns: int, limit: int) -> int:
    """Return the number of columns per program: a power of two from 16 to `limit`."""
    power: int = triton.next_power_of_2(n_columns)
    return min(max(power, 16), limit)


def search_steps(n_places: int) -> int:
    """Return the number of steps of a 16-ary search (`search_places`) over these places."""
    return max(-(-n_places.bit_length() // 4), 1)


def find_pieces(bounds_B1: Tensor, n_rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Split ranges of rows into pieces of one length, on the GPU.

    Parameters
    ----------
    bounds_B1 : range b has the rows `bounds[b]:bounds[b + 1]`.
    n_rows : upper bound of the number of rows.

    Returns
    -------
    The range of every piece, -1 for an unused one (only the GPU knows how many are needed), and the
    first row of every piece.
    """
    B = len(bounds_B1) - 1
    n_pieces = B + n_rows // length
    owner_P = torch.empty(n_pieces, dtype=torch.int32, device=bounds_B1.device)
    start_P = torch.empty(n_pieces, dtype=torch.int64, device=bounds_B1.device)
    kernels.find_pieces[(triton.cdiv(n_pieces, 128),)](
        bounds_B1, owner_P, start_P, B, n_pieces, search_steps(B), LENGTH=length, BLOCK=128
    )
    return owner_P, start_P


class Chunks:
    """The documents of a batch, split into chunks of `CHUNK` tokens (`find_pieces`)."""

    def __init__(self, batch: Batch):
        self.batch = batch
        self.document_C, self.start_C = find_pieces(batch.offsets_B1, len(batch.word_ids_N), CHUNK)

    @property
    def bounds(self) -> tuple[Tensor, Tensor, Tensor]:
        """Kernel arguments by which a program finds its tokens."""
        return self.batch.offsets_B1, self.document_C, self.start_C

    @property
    def words(self) -> tuple[Tensor, Tensor]:
        """Words and input weights; any tensor in place of missing weights."""
        return self.batch.word_ids_N, _or_dummy(self.batch.input_weight_N, self.batch.offsets_B1)


def _or_dummy(given: Tensor | None, dummy: Tensor) -> Tensor:
    """Return a tensor, or a dummy for a kernel argument that is not used."""
    return dummy if given is None else given


def _per_chunk(chunks: Chunks, H: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the grid and the options of a kernel with one program per chunk."""
    block = block_columns(H, COLUMNS)
    options = {"H": H, "CHUNK": CHUNK, "BLOCK": block, "num_warps": 1}
    return (len(chunks.document_C), triton.cdiv(H, block)), options


def _per_document(chunks: Chunks, H: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the grid and the options of a kernel with one program per document."""
    block = block_columns(H, SCAN_COLUMNS)
    options = {"H": H, "CHUNK": CHUNK, "ROWS": SCAN_ROWS, "BLOCK": block, "num_warps": 1}
    return (chunks.batch.n_documents, triton.cdiv(H, block)), options


def hidden_units(
    chunks: Chunks, parameters: Parameters, activation: str, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return h_i of every token, (N, stride) of the given type, and the summaries, (B, H)."""
    batch = chunks.batch
    W_KH, bias = parameters.word_embedding_KH, parameters.hidden_bias_H.contiguous()
    K, H = W_KH.shape
    limited = batch.n_summary_words is not None and batch.n_summary_words < K
    sums_CH = W_KH.new_empty(len(chunks.document_C), H)
    below_CH = torch.empty_like(sums_CH) if limited else sums_CH
    summary_BH = W_KH.new_empty(batch.n_documents, H)
    hidden_NS = torch.empty(len(batch.word_ids_N), row_stride(H), dtype=dtype, device=W_KH.device)
    per_chunk, options = _per_chunk(chunks, H)
    options["WEIGHTED"] = batch.input_weight_N is not None
    tables = (*chunks.words, *chunks.bounds, W_KH)
    kernels.sum_embeddings[per_chunk](
        *tables, sums_CH, below_CH, batch.n_summary_words or 0, LIMITED=limited, **options
    )
    per_document, scan_options = _per_document(chunks, H)
    scan_options["BIAS_STRIDE"] = 0 if bias.ndim == 1 else H
    scans = [(below_CH, summary_BH)]
    if limited:
        scans.append((sums_CH, torch.empty_like(summary_BH)))
    for sums, totals in scans:
        kernels.scan_chunks[per_document](
            batch.offsets_B1, sums, bias, totals, REVERSE=False, BIASED=True, **scan_options
        )
    kernels.write_hidden[per_chunk](
        *tables, sums_CH, hidden_NS, STRIDE=hidden_NS.shape[1], ACTIVATION=activation, **options
    )
    return hidden_NS, summary_BH


def sum_gradients(chunks: Chunks, gradient_NS: Tensor, H: int) -> tuple[Tensor, Tensor]:
    """Return sums of the gradients of activations.

    Returns
    -------
    after_CH : sum over the chunks of the same document that follow each chunk.
    total_BH : sum over every document.
    """
    batch = chunks.batch
    n_chunks, device = len(chunks.document_C), gradient_NS.device
    sums_CH = torch.empty(n_chunks, H, dtype=torch.float32, device=device)
    total_BH = sums_CH.new_empty(batch.n_documents, H)
    per_chunk, options = _per_chunk(chunks, H)
    kernels.sum_gradients[per_chunk](
        gradient_NS, *chunks.bounds, sums_CH, STRIDE=gradient_NS.shape[1], **options
    )
    per_document, scan_options = _per_document(chunks, H)
    kernels.scan_chunks[per_document](
        batch.offsets_B1, sums_CH, sums_CH, total_BH,
        BIAS_STRIDE=0, REVERSE=True, BIASED=False, **scan_options,
    )  # fmt: skip
    return sums_CH, total_BH


def write_suffixes(
    chunks: Chunks,
    gradient_NS: Tensor,
    after_CH: Tensor,
    scale: Tensor,
    grad_summary_BH: Tensor | None,
) -> None:
    """Replace the gradients of activations by each token's contribution to the gradient of W.

    Parameters
    ----------
    scale : (1,) factor of all gradients, on the GPU.
    """
    batch = chunks.batch
    per_chunk, options = _per_chunk(chunks, after_CH.shape[1])
    limit = 2**31 - 1 if batch.n_summary_words is None else batch.n_summary_words
    kernels.write_suffixes[per_chunk](
        *chunks.words, gradient_NS, scale, *chunks.bounds, after_CH,
        _or_dummy(grad_summary_BH, after_CH), limit,
        STRIDE=gradient_NS.shape[1], WEIGHTED=batch.input_weight_N is not None,
        SUMMARIZED=grad_summary_BH is not None, **options,
    )  # fmt: skip


def sum_documents(values_N: Tensor, batch: Batch) -> Tensor:
    """Return the sum over the tokens of every document, (B,)."""
    totals_B = values_N.new_empty(batch.n_documents)
    if batch.n_documents:
        kernels.sum_documents[(batch.n_documents,)](values_N, batch.offsets_B1, totals_B, BLOCK=256)
    return totals_B
