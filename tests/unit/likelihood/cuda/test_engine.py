"""The GPU's kernels, run on the CPU by Triton's interpreter on the smallest cases.

Everything that can be wrong about them but their speed and their precision shows here.
"""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from tests.problems import Problem, make_problem, relative_error

from supdocnade.likelihood import contract
from supdocnade.likelihood.contract import Parameters
from supdocnade.likelihood.cuda import engine as cuda_engine

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="here the kernels run on the GPU itself (tests/gpu)"
)

# float32 against float64, as for the other backends.
FLOAT32 = 5e-6

# Rounded to eight bits on the way, once or twice.
BF16 = 2e-2


@pytest.fixture(autouse=True)
def _poisoned_memory():
    """Whatever was not written is NaN, or the largest integer."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    """The interpreter takes its time for every number; and prefixes soon span several tiles."""
    from supdocnade.likelihood.cuda import tree_bands as cuda

    for precision, shape in cuda.WALK_CONFIGS.items():
        monkeypatch.setitem(cuda.WALK_CONFIGS, precision, shape._replace(tile=16))
    monkeypatch.setattr(cuda, "MIXED_TILE", 16)


def run(problem: Problem, activation: str):
    """Call the backend itself: the dispatcher would refuse tensors that are not on a GPU."""
    if problem.tree is None:
        from supdocnade.likelihood.cuda.softmax import softmax_nll

        return softmax_nll(problem.batch, problem.parameters, activation)
    from supdocnade.likelihood.cuda.tree_bands import tree_nll

    return tree_nll(problem.batch, problem.parameters, problem.tree, activation)


def outputs(terms, problem: Problem, *, uneven: bool = False):
    dtype = terms.nll_B.dtype
    generator = torch.Generator().manual_seed(5)

    def noise(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    noise_B = noise(len(terms.nll_B))
    loss = (noise_B * terms.nll_B).sum() if uneven else 0.7 * terms.nll_B.sum()
    (loss + (noise(*terms.summary_BH.shape) * terms.summary_BH).sum()).backward()
    return [terms.nll_B.detach(), terms.summary_BH.detach(), *problem.gradients()]


def assert_agrees(problem: Problem, activation: str = "relu", *, uneven: bool = False):
    expected = outputs(problem.run(activation, "vectorized"), problem, uneven=uneven)
    single = problem.to(torch.float32)
    actual = outputs(run(single, activation), single, uneven=uneven)
    names = ["nll", "summary", "W", "c", "V", "b"]
    for name, a, e in zip(names, actual, expected, strict=True):
        assert a.shape == e.shape, name
        assert relative_error(a, e) <= FLOAT32, name


@pytest.mark.parametrize("output", ["tree", "softmax"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_activations_and_uneven_gradients(output, activation):
    problem = make_problem(
        [0, 1, 9, 0, 25], 37, n_topics=7, output=output, n_summary_words=30, scale=0.2
    )
    assert_agrees(problem, activation, uneven=activation == "tanh")


@pytest.mark.parametrize(("n_words", "n_topics"), [(2, 8), (17, 33), (300, 5)])
@pytest.mark.parametrize("dense", [True, False])
def test_trees_of_every_depth_by_prefixes_and_by_tiles(monkeypatch, n_words, n_topics, dense):
    from supdocnade.likelihood.cuda import tree_bands as cuda

    # One token to a prefix is enough for tiles of one prefix; more than there are is not.
    monkeypatch.setattr(cuda, "DENSE", 1 if dense else 10**6)
    assert_agrees(make_problem([30, 3], n_words, n_topics, scale=0.2))


def test_prefixes_that_span_tiles_with_many_prefixes_to_a_launch(monkeypatch):
    from supdocnade.likelihood.cuda import rows as cuda

    monkeypatch.setattr(cuda, "FEW_PREFIXES", 0)
    assert_agrees(make_problem([90], 3, n_topics=9, scale=0.1))


def test_documents_of_several_chunks():
    assert_agrees(make_problem([70, 16, 17], 5, n_topics=9, scale=0.05))


@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_without_weights_and_with_weights_of_zero(output):
    assert_agrees(make_problem([5, 12], 9, n_topics=8, output=output, weighted=False, scale=0.2))
    problem = make_problem([5, 12], 9, n_topics=8, output=output, scale=0.2)
    problem.batch.loss_weight_N[3:9] = 0
    problem.batch.input_weight_N[::2] = 0
    assert_agrees(problem)


@pytest.mark.parametrize("output", ["tree", "softmax"])
@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_batches_without_words(output, lengths):
    problem = make_problem(lengths, 6, n_topics=8, output=output).to(torch.float32)
    nll, summary, *gradients = outputs(run(problem, "tanh"), problem)
    assert nll.tolist() == [0.0] * len(lengths)
    c_H = problem.parameters.hidden_bias_H.detach()
    torch.testing.assert_close(summary, c_H.expand(len(lengths), 8))
    assert not gradients[0].any()
    assert not gradients[2].any()


def test_one_word_alone_has_nothing_to_decide():
    assert_agrees(make_problem([4, 0], 1, n_topics=3))


def test_a_second_backward_gives_the_same_gradients():
    problem = make_problem([5, 30], 6, n_topics=4).to(torch.float32)
    loss = sum(term.sum() for term in run(problem, "tanh"))
    loss.backward(retain_graph=True)
    first = problem.gradients()
    loss.backward()
    for a, e in zip(problem.gradients(), first, strict=True):
        torch.testing.assert_close(a, e, rtol=0, atol=0)


@pytest.mark.parametrize("lengths", [[], [1], [0, 30, 1]])
@pytest.mark.parametrize(("n_words", "output"), [(2, "tree"), (300, "tree"), (60, "softmax")])
def test_gradients_of_touched_rows(monkeypatch, lengths, n_words, output):
    monkeypatch.setattr(contract, "SPARSE_ROWS", 1)
    problem = make_problem(lengths, n_words, n_topics=5, output=output, scale=0.2)
    single = problem.to(torch.float32)
    run(single, "relu").nll_B.sum().backward()
    words = np.unique(problem.batch.word_ids_N.numpy())
    W, _, V, _ = (parameter.grad for parameter in single.parameters)
    np.testing.assert_array_equal(W._indices()[0], words)
    assert V.is_sparse == (output == "tree")
    if V.is_sparse:
        nodes, signs = problem.tree.paths
        on_path = np.unique(nodes[words][signs[words] != 0])
        np.testing.assert_array_equal(V._indices()[0], on_path)
    single.gradients()
    if lengths and any(lengths):
        assert_agrees(problem)


@pytest.mark.parametrize("lengths", [[0], [1], [0, 30, 1]])
@pytest.mark.parametrize(("n_words", "output"), [(2, "tree"), (300, "tree"), (60, "softmax")])
def test_recorded_calls_have_room_for_the_most_rows_there_can_be(
    monkeypatch, lengths, n_words, output
):
    monkeypatch.setattr(contract, "SPARSE_ROWS", 1)
    problem = make_problem(lengths, n_words, n_topics=5, output=output).to(torch.float32)
    # One more than there are: only the GPU knows how many it has.
    ids_N = torch.cat([problem.batch.word_ids_N, torch.tensor([10**6], dtype=torch.int32)])
    weights = {
        name: torch.cat([getattr(problem.batch, name), torch.tensor([float("nan")])])
        for name in ("input_weight_N", "loss_weight_N")
    }
    batch = problem.batch._replace(word_ids_N=ids_N, **weights, checked=True)
    problem = problem._replace(batch=batch)
    found = []
    for bounded in (False, True):
        with contract.padded_sparse_gradients() if bounded else nullcontext():
            run(problem, "relu").nll_B.sum().backward()
        found.append([p.grad for p in problem.parameters])
        for parameter in problem.parameters:
            parameter.grad = None
    for exact, bounded in zip(*found, strict=True):
        if not exact.is_sparse:
            assert torch.equal(bounded, exact)
            continue
        rows, values = exact._indices()[0].tolist(), exact._values()
        room, padded = bounded._indices()[0].tolist(), bounded._values()
        n_rows = len(rows)
        assert len(room) > n_rows or len(room) == len(exact)
        assert room == rows + [rows[-1] if rows else -1] * (len(room) - n_rows)
        assert torch.equal(padded[:n_rows], values)
        assert not padded[n_rows:].any()


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_tables_longer_than_the_documents(monkeypatch, output, uneven, few):
    """What stands beyond the last token is never looked at."""
    monkeypatch.setattr(contract, "SPARSE_ROWS", 1 if few else 10**6)
    problem = make_problem([5, 12], 9, n_topics=8, output=output, scale=0.2).to(torch.float32)
    expected = outputs(run(problem, "relu"), problem, uneven=uneven)
    batch = problem.batch
    extra = torch.full((8,), float("nan"))
    longer = batch._replace(
        word_ids_N=torch.cat([batch.word_ids_N, torch.full((8,), 10**6, dtype=torch.int32)]),
        input_weight_N=torch.cat([batch.input_weight_N, extra]),
        loss_weight_N=torch.cat([batch.loss_weight_N, extra]),
        checked=True,
    )
    again = problem._replace(batch=longer)
    actual = outputs(run(again, "relu"), again, uneven=uneven)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("output", ["tree", "softmax"])
@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_a_nan_parameter_shows_in_the_loss(output, which):
    problem = make_problem([20], 4, n_topics=3, output=output).to(torch.float32)
    problem.parameters[which].data.fill_(float("nan"))
    assert run(problem, "relu").nll_B.isnan().all()


def test_extreme_logits_stay_finite():
    problem = make_problem([2], 2, n_topics=1, weighted=False).to(torch.float32)
    problem.parameters.node_weight_TH.data.zero_()
    problem.parameters.node_bias_T.data.fill_(1e30)
    words = torch.tensor([0, 1], dtype=torch.int32)
    terms = run(problem._replace(batch=problem.batch._replace(word_ids_N=words)), "relu")
    assert terms.nll_B.item() == pytest.approx(1e30)
    terms.nll_B.sum().backward()
    assert problem.gradients()[3].item() == pytest.approx(1.0, abs=1e-6)


def test_values_without_gradients():
    problem = make_problem([5, 12], 9, n_topics=8, scale=0.2).to(torch.float32)
    expected = run(problem, "relu").nll_B
    frozen = problem._replace(parameters=Parameters(*(p.detach() for p in problem.parameters)))
    torch.testing.assert_close(run(frozen, "relu").nll_B, expected.detach(), rtol=0, atol=0)


def test_rows_of_a_tile_without_a_token_give_nothing_however_large_the_biases():
    problem = make_problem([5], 9, n_topics=8, output="softmax", scale=0.2)
    problem.parameters.node_bias_T.data += 200  # exp(200) is no number of float32.
    assert_agrees(problem)


@pytest.mark.parametrize("dense", [True, False])
def test_operands_in_bf16(monkeypatch, dense):
    from triton.runtime import interpreter

    from supdocnade.likelihood.cuda import tree_bands as cuda

    # The interpreter has bf16 as sixteen bits, and would multiply these as integers.
    multiply = interpreter.InterpreterBuilder.create_dot

    def widened(handle):
        values = (handle.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(values, interpreter.tl.float32)

    monkeypatch.setattr(
        interpreter.InterpreterBuilder,
        "create_dot",
        lambda self, a, b, *rest: multiply(self, widened(a), widened(b), *rest),
    )
    monkeypatch.setattr(cuda, "DENSE", 1 if dense else 10**6)
    monkeypatch.setattr(cuda_engine, "product_precision", lambda: "bf16")
    problem = make_problem([30, 3, 70], 37, n_topics=9, scale=0.2)
    expected = outputs(problem.run("tanh", "vectorized"), problem)
    single = problem.to(torch.float32)
    actual = outputs(run(single, "tanh"), single)
    for a, e in zip(actual, expected, strict=True):
        assert relative_error(a, e) <= BF16
        assert a.dtype == torch.float32


@pytest.mark.parametrize(("allowed", "expected"), [("ieee", "tf32x3"), ("tf32", "tf32")])
def test_the_precision_by_the_switch_for_gpus_alone(allowed, expected):
    from supdocnade.likelihood.cuda.engine import product_precision

    products = torch.backends.cuda.matmul
    if not hasattr(products, "fp32_precision"):
        pytest.skip("torch is older than 2.9")
    before = products.fp32_precision
    try:
        products.fp32_precision = allowed
        assert product_precision() == expected
    finally:
        products.fp32_precision = before
    assert product_precision() == "tf32x3"
