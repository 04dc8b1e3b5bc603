import logging
import os
import subprocess
import sys

import pytest
import torch
from tests.problems import make_problem

from supdocnade.errors import BackendUnavailable, InvalidArgument, SupDocNADEError
from supdocnade.likelihood.contract import Backend, Operation


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


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("wrong", [-1, 6])
def test_words_are_looked_through_without_torchs_threads(problem, monkeypatch, kind, wrong):
    # They hang in a forked child.
    monkeypatch.setattr(torch, "aminmax", lambda *_: pytest.fail("torch looked through the words"))
    ids = problem.batch.word_ids_N.to(kind)
    ids[3] = wrong
    batch = problem.batch._replace(word_ids_N=ids)
    with pytest.raises(InvalidArgument, match=f"word_ids must lie in 0 .. 5, got .*{wrong}"):
        problem._replace(batch=batch).run("relu", "vectorized")
    spread = torch.stack([ids, ids], dim=1)[:, 0]  # Every second number in memory.
    spread[3] = 5
    problem._replace(batch=batch._replace(word_ids_N=spread)).run("relu", "vectorized")


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


def test_errors_about_input_are_value_errors():
    assert issubclass(InvalidArgument, SupDocNADEError)
    assert issubclass(InvalidArgument, ValueError)


@pytest.mark.parametrize(
    ("backend", "dtype", "message"),
    [
        ("cpu", torch.float64, "'cpu' cannot serve tree_nll: it takes float32 .* are float64"),
        ("reference", torch.float32, "'reference' cannot serve tree_nll: it takes float64"),
    ],
)
def test_a_backend_asked_for_by_name_serves_or_raises(backend, dtype, message):
    with pytest.raises(BackendUnavailable, match=message):
        make_problem([3], 4, 2).to(dtype).run("relu", backend)


def test_an_unknown_backend_is_refused():
    with pytest.raises(
        InvalidArgument, match="'auto', 'reference', 'vectorized', 'cpu', 'cuda', got 'gpu'"
    ):
        make_problem([3], 4, 2).run("relu", "gpu")


def operation(*names: str, requires: str | None = None) -> Operation:
    backends = [Backend(name, "nowhere", ("cpu",), (torch.float32,), requires) for name in names]
    return Operation("op", tuple(backends), automatic=names)


def test_the_automatic_choice_is_reported_once(caplog):
    op = operation("fast", "slow")
    with caplog.at_level(logging.INFO, logger="supdocnade"):
        chosen = [op.choose("auto", torch.device("cpu"), torch.float32) for _ in range(3)]
    assert chosen == ["fast"] * 3
    assert [record.message for record in caplog.records] == [
        "op: backend 'fast' on cpu with torch.float32"
    ]


def test_a_missing_package_is_named():
    op = operation("fast", requires="no_such_package")
    with pytest.raises(BackendUnavailable, match="needs the package no_such_package"):
        op.choose("fast", torch.device("cpu"), torch.float32)
    with pytest.raises(BackendUnavailable, match="no backend can serve op"):
        op.choose("auto", torch.device("cpu"), torch.float32)


def test_the_automatic_choice_falls_to_the_next_that_fits():
    problem = make_problem([3], 4, 2)
    assert problem.run("relu", "auto").nll_B.dtype == torch.float64
    single = problem.to(torch.float32)
    torch.testing.assert_close(
        single.run("relu", "auto").nll_B, single.run("relu", "cpu").nll_B, rtol=0, atol=0
    )


def test_a_machine_without_a_gpu_never_imports_the_gpus_kernels():
    program = (
        "import sys, numpy as np, supdocnade\n"
        "supdocnade.SupDocNADE(n_topics=2, max_epochs=1).fit(np.eye(4, dtype=int), [0, 1, 0, 1])\n"
        "assert not [name for name in sys.modules if name.startswith('supdocnade.likelihood.cuda')]"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
