import pytest
import torch
from tests.likelihood_problems import make_problem

from supdocnade.errors import InvalidArgument


@pytest.fixture
def problem():
    return make_problem([2, 3], n_words=6, n_topics=4)


def float32(value):
    return value.float()


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("word_ids_N", lambda t: t + 3, r"word_ids must lie in 0 .. 5, got \d .. \d"),
        ("word_ids_N", lambda t: t - 6, "word_ids must lie in 0 .. 5, got -"),
        ("word_ids_N", lambda t: t.double(), "word_ids must be .* int32 or int64 .*float64"),
        ("word_ids_N", lambda t: t[None], r"one-dimensional .* got shape \(1, 5\)"),
        ("offsets_B1", lambda t: t.int(), "offsets must be .* int64 .*int32"),
        ("offsets_B1", lambda t: t[:0], "one entry more than documents"),
        ("offsets_B1", lambda t: t + 1, "rise from 0 to the number of tokens, 5, got 1 to 6"),
        ("offsets_B1", lambda t: t[[0, 2, 1, 2]], "rise from 0"),
        ("input_weight_N", lambda t: t[1:], r"input_weight must have shape \(5,\), got \(4,\)"),
        ("loss_weight_N", float32, "loss_weight must have the type .*float64, got torch.float32"),
        ("n_summary_words", lambda _: 7, "n_summary_words must lie in 0 .. 6, got 7"),
    ],
)
def test_a_wrong_batch_is_refused(problem, field, change, message):
    batch = problem.batch._replace(**{field: change(getattr(problem.batch, field))})
    with pytest.raises(InvalidArgument, match=message):
        problem._replace(batch=batch).run("relu", "vectorized")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("wrong", [-1, 6])
def test_word_ids_are_checked_without_torchs_threads(problem, monkeypatch, dtype, wrong):
    # Torch's threads hang in a forked child.
    monkeypatch.setattr(torch, "aminmax", lambda *_: pytest.fail("torch searched the ids"))
    ids = problem.batch.word_ids_N.to(dtype)
    ids[3] = wrong
    batch = problem.batch._replace(word_ids_N=ids)
    with pytest.raises(InvalidArgument, match=f"word_ids must lie in 0 .. 5, got .*{wrong}"):
        problem._replace(batch=batch).run("relu", "vectorized")
    strided = torch.stack([ids, ids], dim=1)[:, 0]
    strided[3] = 5
    problem._replace(batch=batch._replace(word_ids_N=strided)).run("relu", "vectorized")


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        (
            "word_embedding_KH",
            lambda t: t[:5],
            r"word_embedding must have shape \(6,\), got \(5,\)",
        ),
        ("word_embedding_KH", lambda t: t[0], "word_embedding must have"),
        ("hidden_bias_H", lambda t: t[:3], r"hidden_bias must have shape \(4,\), got \(3,\)"),
        (
            "hidden_bias_H",
            lambda t: t.expand(9, 4),
            r"hidden_bias must have shape \(2, 4\), got \(9, 4\)",
        ),
        ("node_weight_TH", lambda t: t[:4], r"node_weight must have shape \(5, 4\), got \(4, 4\)"),
        ("node_bias_T", lambda t: t[:, None], r"node_bias must have shape \(5,\), got \(5, 1\)"),
        ("hidden_bias_H", float32, "parameters must share one floating-point type"),
    ],
)
def test_wrong_parameters_are_refused(problem, field, change, message):
    changed = change(getattr(problem.parameters, field).detach())
    parameters = problem.parameters._replace(**{field: changed})
    with pytest.raises(InvalidArgument, match=message):
        problem._replace(parameters=parameters).run("relu", "vectorized")


def test_an_unknown_activation_is_refused(problem):
    with pytest.raises(InvalidArgument, match=r"activation must be one of .* got 'gelu'"):
        problem.run("gelu", "vectorized")


def test_tensors_on_two_devices_are_refused(problem):
    batch = problem.batch._replace(loss_weight_N=torch.empty(5, dtype=torch.float64, device="meta"))
    with pytest.raises(InvalidArgument, match="one device, got cpu, meta"):
        problem._replace(batch=batch).run("relu", "vectorized")
