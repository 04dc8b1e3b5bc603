"""Products in parts: values, gradients, and bits that do not depend on the number of threads."""

import pytest
import torch

from supdocnade.likelihood.cpu.products import apply_layer, multiply
from supdocnade.likelihood.cpu.threads import limit_threads

SHAPES = [(64, 300, 1000), (1, 5, 700), (700, 3, 2), (0, 4, 300), (3, 0, 300), (128, 512, 513)]


def draw(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients(shape, transposed):
    rows, inner, columns = shape
    left = draw(rows, inner).requires_grad_()
    table = draw(*((columns, inner) if transposed else (inner, columns)), seed=1).requires_grad_()
    gradient = draw(rows, columns, seed=2)
    right = table.T if transposed else table
    expected = left @ right
    wanted = torch.autograd.grad(expected, (left, table), gradient)
    actual = multiply(left, right)
    found = torch.autograd.grad(actual, (left, table), gradient)
    torch.testing.assert_close(actual, expected)
    for a, e in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, e)
    assert found[1].is_contiguous()


def test_layers_have_biases():
    rows, weight, bias = draw(7, 5), draw(300, 5, seed=1), draw(300, seed=2)
    torch.testing.assert_close(
        apply_layer(rows, weight, bias), torch.nn.functional.linear(rows, weight, bias)
    )


@pytest.mark.parametrize("transposed", [False, True])
def test_threads_do_not_change_a_bit(transposed):
    left = draw(128, 513, dtype=torch.float32).requires_grad_()
    table = draw(2000, 513, dtype=torch.float32, seed=1)
    table = (table if transposed else table.T.contiguous()).requires_grad_()
    results = []
    for n_threads in (1, 2, 3):
        with limit_threads(n_threads):
            product = multiply(left, table.T if transposed else table)
            results.append((product, *torch.autograd.grad(product.sin().sum(), (left, table))))
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            assert torch.equal(first, second)
