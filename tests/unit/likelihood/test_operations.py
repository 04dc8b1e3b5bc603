import importlib.util
import itertools

import pytest
import torch
from tests.likelihood_problems import batch_of, make_problem

from supdocnade.errors import BackendUnavailable, InvalidArgument
from supdocnade.likelihood import operations
from supdocnade.likelihood.operations import (
    choose_backend,
    choose_device,
    use_backend,
)

OUTPUTS = ["tree", "softmax"]
ACTIVATIONS = ["relu", "tanh", "sigmoid"]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("backend", ["vectorized", "cpu"])
@pytest.mark.parametrize("n_words", [2, 3, 37])
def test_probabilities_of_the_next_word_sum_to_one(output, activation, backend, n_words):
    problem = make_problem([1], n_words, n_topics=5, output=output)
    context = [0, 1, 1]
    empty = problem._replace(batch=batch_of([context]))
    longer = problem._replace(batch=batch_of([[*context, word] for word in range(n_words)]))
    if backend == "cpu":
        empty, longer = empty.to(torch.float32), longer.to(torch.float32)
    log_p = empty.run(activation, backend).nll_B - longer.run(activation, backend).nll_B
    tolerance = 1e-12 if backend == "vectorized" else 1e-5
    assert float(log_p.detach().double().exp().sum()) == pytest.approx(1.0, abs=tolerance)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_probabilities_of_all_documents_of_one_length_sum_to_one(output, activation, length):
    problem = make_problem([1], n_words=5, n_topics=4, output=output)
    documents = [list(words) for words in itertools.product(range(5), repeat=length)]
    for backend in ("reference", "vectorized"):
        nll_B = problem._replace(batch=batch_of(documents)).run(activation, backend).nll_B
        assert float(torch.exp(-nll_B.detach()).sum()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("backend", "dtype", "message"),
    [
        ("cpu", torch.float64, "'cpu': it takes float32 .* are float64"),
        ("reference", torch.float32, "'reference': it takes float64"),
    ],
)
def test_a_backend_requested_by_name_serves_or_raises(backend, dtype, message):
    with pytest.raises(BackendUnavailable, match=message):
        make_problem([3], 4, 2).to(dtype).run("relu", backend)


def test_an_unknown_backend_is_refused():
    with pytest.raises(
        InvalidArgument, match="'auto', 'reference', 'vectorized', 'cpu', 'cuda', got 'gpu'"
    ):
        make_problem([3], 4, 2).run("relu", "gpu")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with (
        use_backend("cpu"),
        pytest.raises(BackendUnavailable, match="needs the package numba, which is not installed"),
    ):
        choose_backend(torch.device("cpu"), torch.float32)
    assert choose_backend(torch.device("cpu"), torch.float32) == "vectorized"


def test_the_automatic_choice_falls_to_the_next_that_fits():
    problem = make_problem([3], 4, 2)
    assert problem.run("relu", "auto").nll_B.dtype == torch.float64
    single = problem.to(torch.float32)
    torch.testing.assert_close(
        single.run("relu", "auto").nll_B, single.run("relu", "cpu").nll_B, rtol=0, atol=0
    )


def test_functions_as_activations_are_served_by_plain_torch():
    cpu = torch.device("cpu")
    assert choose_backend(cpu, torch.float32, torch.sin) == "vectorized"
    with use_backend("vectorized"):
        assert choose_backend(cpu, torch.float32, torch.sin) == "vectorized"
    with use_backend("reference"):
        assert choose_backend(cpu, torch.float64, torch.sin) == "reference"
    with (
        use_backend("cpu"),
        pytest.raises(BackendUnavailable, match="its activation is relu, tanh, sigmoid"),
    ):
        choose_backend(cpu, torch.float32, torch.sin)


def test_without_a_gpu_the_cpu_is_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(BackendUnavailable, match="device 'cuda' is not available: torch finds no"):
        choose_device("cuda")


def test_a_gpu_is_chosen_unless_the_cpu_is_requested(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(operations, "choose_backend", lambda device, dtype: device.type)
    assert choose_device("cuda") == torch.device("cuda", 1)
    assert choose_device("auto", 1e10) == torch.device("cuda", 1)
    for others in ((1e8,), (1e10, torch.sin)):
        assert choose_device("auto", *others) == choose_device("cpu") == torch.device("cpu")


def test_unknown_devices_are_refused():
    with pytest.raises(InvalidArgument, match="device must be one of 'auto', 'cpu', 'cuda', got"):
        choose_device("cuda:1")
