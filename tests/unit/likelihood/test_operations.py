"""The conditionals are probabilities: of all words, and of all documents of one length."""

import itertools

import pytest
import torch
from tests.problems import make_problem

from supdocnade.likelihood.contract import DocumentBatch

OUTPUTS = ["tree", "softmax"]
ACTIVATIONS = ["relu", "tanh", "sigmoid"]


def batch_of(documents):
    flat = torch.tensor([word for document in documents for word in document], dtype=torch.int32)
    lengths = torch.tensor([0] + [len(document) for document in documents])
    return DocumentBatch(flat, lengths.cumsum(0))


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("backend", ["vectorized", "cpu"])
@pytest.mark.parametrize("n_words", [2, 3, 37])
def test_the_words_that_may_come_next_have_probability_one(output, activation, backend, n_words):
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
def test_the_documents_of_one_length_have_probability_one(output, activation, length):
    problem = make_problem([1], n_words=5, n_topics=4, output=output)
    documents = [list(words) for words in itertools.product(range(5), repeat=length)]
    for backend in ("reference", "vectorized"):
        nll_B = problem._replace(batch=batch_of(documents)).run(activation, backend).nll_B
        assert float(torch.exp(-nll_B.detach()).sum()) == pytest.approx(1.0, abs=1e-12)
