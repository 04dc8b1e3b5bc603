"""Every compiled kernel, its arguments that are indices, and what keeps each within its array.

A kernel reads and writes without looking at bounds, so an index that comes from a user or a file
must be checked before. `GUARDS` names, for every such argument, the function that checks it, or the
one that computes it from checked values. A kernel with an argument that is listed nowhere fails.
"""

import ast
import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from supdocnade import Corpus, DampCounts, DocNADE, SupDocNADE
from supdocnade.errors import SupDocNADEError
from supdocnade.likelihood.contract import Batch, Parameters
from supdocnade.likelihood.operations import softmax_nll, tree_nll, use_backend
from supdocnade.tree import WordTree

SOURCE = Path(__file__).parents[2] / "src" / "supdocnade"
DECORATORS = ("kernel", "compiled", "triton.jit")

CALL, TREE = "likelihood.contract.check_call", "tree.WordTree.__post_init__"
CPU, CUDA = "likelihood.cpu", "cuda"
GUARDS = {
    "baselines.dirichlet_kernels": {
        "indptr": "corpus.tokens.check_indices",
        "indices": "corpus.tokens.check_indices",
        "label_B": "estimators.inputs.number_labels",
    },
    "images.dense_sift_kernels": {
        "grey_YX": "images.decode.decode",
        "lower_GG": "images.dense_sift.gradient_table",
        "first_P": "images.dense_sift.side_windows",
        "count_P": "images.dense_sift.side_windows",
        "before": "images.dense_sift._describe",
    },
    f"{CPU}.prefix_sums": {
        "ids_N": CALL,
        "offsets_B1": CALL,
        "limit": CALL,
        "first": f"{CPU}.prefix_sums.split_columns",
        "last": f"{CPU}.prefix_sums.split_columns",
        "base": f"{CPU}.engine.evaluate",
        "next_document": f"{CPU}.engine.evaluate",
    },
    f"{CPU}.tree_walk_kernels": {
        "ids_N": CALL,
        "leaf_of_word_K": TREE,
        "n_leaves": TREE,
        "order": f"{CPU}.tree_walk_kernels.sort_by_leaf",
        "leaves": f"{CPU}.tree_walk_kernels.sort_by_leaf",
        "edges": f"{CPU}.tree_walk.walk_tree",
        "next_subtree": f"{CPU}.tree_walk.walk_tree",
        "depths": f"{CPU}.tree_walk._subtree_tables",
        "above": f"{CPU}.tree_walk._subtree_tables",
    },
    "model.inference": {
        "indptr": "corpus.tokens.check_indices",
        "indices": "corpus.tokens.check_indices",
        "first": "threads.even_ranges",
        "last": "threads.even_ranges",
    },
    f"{CUDA}.graph_updates": {},
    f"{CUDA}.prefix_kernels": {
        "ids": CALL,
        "offsets": CALL,
        "limit": CALL,
        "bounds": f"{CUDA}.prefix.find_pieces",
        "owner": f"{CUDA}.prefix.find_pieces",
        "start": f"{CUDA}.prefix.find_pieces",
        "n_ranges": f"{CUDA}.prefix.find_pieces",
        "n_pieces": f"{CUDA}.prefix.find_pieces",
        "n_steps": f"{CUDA}.prefix.search_steps",
        "chunk_document": f"{CUDA}.prefix.find_pieces",
        "chunk_start": f"{CUDA}.prefix.find_pieces",
    },
    f"{CUDA}.rows_kernels": {
        "ids": CALL,
        "n_tokens": CALL,
        "key_of_word": f"{CUDA}.tree_bands.Bands.__init__",
        "max_key": f"{CUDA}.rows.SortedTokens.__init__",
        "keys": f"{CUDA}.rows.SortedTokens.__init__",
        "order": f"{CUDA}.rows.SortedTokens.__init__",
        "first_row": f"{CUDA}.rows.SortedTokens.__init__",
        "n_slots": f"{CUDA}.rows.SortedTokens.__init__",
        "first_prefix": f"{CUDA}.tree_bands.Bands.__init__",
        "n_lowest": f"{CUDA}.tree_bands.Bands.__init__",
        "tile_prefix": f"{CUDA}.prefix.find_pieces",
        "row_of_slot": f"{CUDA}.tree_bands.Bands.__init__",
    },
    f"{CUDA}.tree_band_kernels": {
        "order": f"{CUDA}.rows.SortedTokens.__init__",
        "keys": f"{CUDA}.rows.SortedTokens.__init__",
        "first_row": f"{CUDA}.rows.SortedTokens.__init__",
        "n_tokens": CALL,
        "tile_prefix": f"{CUDA}.prefix.find_pieces",
        "tile_start": f"{CUDA}.prefix.find_pieces",
        "nodes_of_prefix": f"{CUDA}.tree_bands.Bands.nodes_of_prefix",
        "node_of_slot": f"{CUDA}.tree_bands.Bands.__init__",
        "first_prefix": f"{CUDA}.tree_bands.Bands.__init__",
    },
}
"""Guards of the arguments of kernels by module."""

VALUES = (
    "activation after alpha b_T before bias bias_RH bias_T biases bound_B c_RH clamp "
    "cost counts data embedding eta_CH expected_BH expected_XBH grad_b_T grad_biases grad_c_RH "
    "grad_NH grad_summary grad_V grad_W grad_weights gradient gradient_CH gradients half_YPO "
    "hidden hidden_NH incoming_BH input_weight input_weight_N is_open_B limited log_u_BH "
    "log_u_XBH loss_weight loss_weight_N means nll nll_N norm_S out out_BH out_bias "
    "out_BT part_GG2 parts rate rate_B response rows rows_BH scale size_B size_XB squares steps "
    "summary_BH sums sums_KH table_KH table_TH target_XBH tolerance_B top_b top_V topic_KH "
    "totals totals_B trial_bound_B trial_expected_XBH trial_log_u_XBH trial_target_XBH units_SD "
    "V_TH values values_N W_KH weight_B weight_PJ weights word_BH"
)
"""Arguments that are numbers to compute with, or arrays of them, and never indices."""


@functools.cache
def kernels():
    """Return the kernels that other kernels do not call, by module and name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        module, text = ".".join(path.relative_to(SOURCE).with_suffix("").parts), path.read_text()
        if not any(f"@{each}" in text for each in DECORATORS):
            continue
        for node in ast.parse(text).body:
            decorators = getattr(node, "decorator_list", ())
            if any(ast.unparse(each).partition("(")[0] in DECORATORS for each in decorators):
                found[module, node.name] = node
    called = {
        each.id for node in found.values() for each in ast.walk(node) if isinstance(each, ast.Name)
    }
    return {key: node for key, node in found.items() if key[1] not in called}


def test_every_index_of_a_kernel_has_a_guard():
    missing = []
    for (module, name), node in kernels().items():
        for argument in node.args.args:
            is_constant = argument.annotation is not None
            known = is_constant or argument.arg in {*GUARDS.get(module, ()), *VALUES.split()}
            if not known or module not in GUARDS:
                missing.append(f"{module}.{name}: {argument.arg}")
    assert missing == []
    assert len(kernels()) >= 30


def test_every_guard_belongs_to_a_kernel_and_exists():
    arguments = {}
    for (module, _), node in kernels().items():
        arguments.setdefault(module, set()).update(each.arg for each in node.args.args)
    for module, guards in GUARDS.items():
        assert not guards.keys() - arguments[module], module
        for guard in guards.values():
            assert defines(*guard.split(".")), guard


@functools.cache
def defines(*names):
    """Return whether a module of the package defines a function, or a method of a class."""
    n_parts = max(
        n for n in range(1, len(names)) if SOURCE.joinpath(*names[:n]).with_suffix(".py").is_file()
    )
    nodes = ast.parse(SOURCE.joinpath(*names[:n_parts]).with_suffix(".py").read_text()).body
    for name in names[n_parts:]:
        node = next((each for each in nodes if getattr(each, "name", None) == name), None)
        if node is None:
            return False
        nodes = node.body
    return True


def bad_matrices():
    """Yield sparse matrices of 3 x 6 whose indices lie outside of it, as a file may hold them."""
    for bad in (6, 2**31 - 1, -1):
        for kind in (sparse.csr_array, sparse.csc_array):
            matrix = kind(np.ones((3, 6)))
            matrix.indices[4] = bad
            yield matrix
        matrix = sparse.coo_array(np.ones((3, 6)))
        matrix.coords[1][4] = bad
        yield matrix
    matrix = sparse.csr_array(np.ones((3, 6)))
    matrix.indptr[1] = 10**6
    yield matrix


@functools.cache
def fitted():
    counts = np.random.default_rng(0).poisson(1.0, (12, 6)) + 1
    fast = {"n_topics": 3, "max_epochs": 1, "random_state": 0}
    supervised = SupDocNADE(**fast).fit(counts, ["a", "b"] * 6, annotations=counts[:, :2])
    return supervised, DocNADE(**fast, output="softmax").fit(counts)


CALLS = {
    "predict": lambda X, _: fitted()[0].predict(X),
    "predict_proba": lambda X, _: fitted()[0].predict_proba(X),
    "transform": lambda X, _: fitted()[0].transform(X),
    "annotate": lambda X, _: fitted()[0].annotate(X),
    "annotation_log_proba": lambda X, _: fitted()[0].annotation_log_proba(X),
    "log_prob": lambda X, _: fitted()[0].log_prob(X),
    "perplexity": lambda X, _: fitted()[1].perplexity(X),
    "score": lambda X, _: fitted()[1].score(X),
    "fit": lambda X, _: DocNADE(2, max_epochs=1).fit(X),
    "annotations": lambda X, _: SupDocNADE(2, max_epochs=1).fit(
        np.ones((3, 2)), ["a", "b", "a"], annotations=X
    ),
    "partial_fit": lambda X, _: DocNADE(2).partial_fit(X),
    "DampCounts": lambda X, _: DampCounts().fit_transform(X),
    "Corpus": lambda X, folder: Corpus.create(folder / "corpus", n_words=6).append(X),
}


@pytest.mark.parametrize("call", CALLS)
def test_public_calls_refuse_matrices_with_indices_out_of_range(call, tmp_path):
    for number, matrix in enumerate(bad_matrices()):
        with pytest.raises(SupDocNADEError, match="indices lie within its shape"):
            CALLS[call](matrix, tmp_path / str(number))


@pytest.mark.parametrize("backend", ["vectorized", "cpu"])
@pytest.mark.parametrize(
    ("ids", "offsets"),
    [([0, 5], [0, 2]), ([-1, 0], [0, 2]), ([0, 1], [0, 3]), ([0, 1], [0, 9, 2]), ([0, 1], [-1, 2])],
)
def test_operations_refuse_documents_out_of_range(ids, offsets, backend):
    batch = Batch(torch.tensor(ids), torch.tensor(offsets))
    for n_rows, operation in ((4, tree_nll), (5, softmax_nll)):
        weights = Parameters(
            torch.zeros(5, 2), torch.zeros(2), torch.zeros(n_rows, 2), torch.zeros(n_rows)
        )
        tree = (WordTree(np.arange(5)),) if operation is tree_nll else ()
        message = r"word_ids must lie|offsets must rise"
        with use_backend(backend), pytest.raises(SupDocNADEError, match=message):
            operation(batch, weights, *tree)


@pytest.mark.parametrize("leaves", [[0, 2], [-1, 0], [0, 0], [0, 2**40]])
def test_a_tree_refuses_leaves_out_of_range(leaves):
    with pytest.raises(SupDocNADEError, match="leaf_of_word must be a permutation"):
        WordTree(np.array(leaves))
