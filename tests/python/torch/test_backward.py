# SPDX-License-Identifier: Apache-2.0
"""backward=: a derivative outside of the operator."""
import ctypes

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import slipstream
import slipstream.torch as slip_torch


@pytest.fixture(scope="module")
def differentiable(artifacts, context):
    def backward(args, grad):
        x, y, a = args
        return grad * a, grad, None

    return slip_torch.register(artifacts["axpy"], "slip_test::axpy_grad", backward=backward)


def test_gradients(differentiable):
    x, start = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
    y = start * 1
    result = differentiable(x, y, 3.0)
    assert result is y
    (result * torch.arange(5.0)).sum().backward()
    torch.testing.assert_close(x.grad, torch.arange(5.0) * 3)
    torch.testing.assert_close(start.grad, torch.arange(5.0))


def test_without_gradients_it_is_an_ordinary_call(differentiable):
    y = torch.zeros(3)
    assert differentiable(torch.ones(3), y, 1.0) is y and y.grad_fn is None
    with torch.no_grad():
        differentiable(torch.ones(3, requires_grad=True), y, 1.0)
    assert y.tolist() == [2.0] * 3


def test_a_leaf_that_is_written_is_pytorchs_own_error(differentiable):
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        differentiable(torch.ones(3), torch.zeros(3, requires_grad=True), 1.0)


def test_what_is_written_afterwards_is_noticed(differentiable):
    """Saved tensors carry versions: writing one between forward and backward is an error, as for any operator."""
    x = torch.ones(3, requires_grad=True)
    inner = x * 1
    y = torch.zeros(3)
    result = differentiable(inner, y, 2.0)
    with torch.no_grad():
        inner.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_the_number_of_gradients(artifacts, context):
    wrong = slip_torch.register(artifacts["axpy"], "slip_test::axpy_wrong_grad", backward=lambda args, grad: grad)
    result = wrong(torch.ones(3, requires_grad=True), torch.zeros(3), 1.0)
    with pytest.raises(slipstream.InvalidArgumentError, match="backward returned 1 gradients, expected one a parameter"):
        result.sum().backward()


def test_the_operator_itself_has_no_derivative(differentiable):
    with pytest.raises(RuntimeError, match="requires grad"):
        differentiable.op(torch.ones(3, requires_grad=True), torch.zeros(3), 1.0)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(differentiable, backend):
    """Forward and backward in one graph each, for all sizes."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)

    def step(x, y):
        return differentiable(x * 2, y.clone(), 3.0).sin().sum()

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counter)
    for size in (4, 9, 33):
        x, y = torch.randn(size, requires_grad=True), torch.randn(size, requires_grad=True)
        compiled(x, y).backward()
        found, x.grad, y.grad = (x.grad, y.grad), None, None
        step(x, y).backward()
        torch.testing.assert_close(found, (x.grad, y.grad))
    assert counter.frame_count == 1
    torch._dynamo.reset()


def test_refusals_keep_their_type_and_words(differentiable):
    weight = torch.ones(3, requires_grad=True)
    with pytest.raises(slipstream.InvalidArgumentError, match="'y' .*N = 3"):
        differentiable(weight, torch.zeros(4), 1.0)
    with pytest.raises(slipstream.ArgumentTypeError, match="'a' .*bool True, expected f32"):
        differentiable(weight, torch.zeros(3), True)
    with pytest.raises(slipstream.ArgumentTypeError, match="2 arguments, expected 3: x, y, a"):
        differentiable(weight, torch.zeros(3))
    assert differentiable(weight, torch.zeros(3), ctypes.c_float(2.0)).tolist() == [2.0] * 3


@pytest.mark.parametrize("how", ["operator", "op", "frame"])
def test_autograd_notices_what_is_written(artifacts, context, how):
    """A tensor that another operator saved for its derivative is written by ours: an error, not a wrong gradient."""
    axpy = slip_torch.load(artifacts["axpy"], "slip_test")
    call = {"operator": axpy, "op": axpy.op, "frame": lambda *args: axpy.frame(*args).launch()}[how]
    weight, y = torch.ones(3, requires_grad=True), torch.ones(3)
    product = weight * y  # saves y
    before = y._version
    call(torch.ones(3), y, 1.0)
    assert y._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    x = torch.ones(3)
    call(x, y, 1.0)
    assert x._version == 0  # only what is written


def test_an_inference_tensor_outside_of_inference_mode(artifacts, context):
    axpy = slip_torch.load(artifacts["axpy"], "slip_test")
    with torch.inference_mode():
        x, y = torch.ones(3), torch.zeros(3)
        axpy(x, y, 1.0)
    with pytest.raises(slipstream.InvalidArgumentError, match="'y' .*inference tensor"):
        axpy(x, y, 1.0)
    assert y.tolist() == [1.0] * 3
    z = torch.zeros(3)
    axpy(x, z, 1.0)  # reading one is fine
    assert z.tolist() == [1.0] * 3


def test_the_last_derivative_counts(artifacts, context):
    """The cell of a notebook that registers is run again, with another function: calls take that one, compiled ones too."""
    def gradient():
        x = torch.ones(3, requires_grad=True)
        call(x, torch.zeros(3)).sum().backward()
        return x.grad.tolist()

    first = slip_torch.register(artifacts["axpy"], "slip_test::axpy_again", backward=lambda args, grad: (grad * 2, None, None))

    def call(x, y):
        return first(x, y, 1.0)

    eager = call
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert gradient() == [2.0] * 3
    call = compiled
    assert gradient() == [2.0] * 3
    assert slip_torch.register(artifacts["axpy"], "slip_test::axpy_again", backward=lambda args, grad: (grad * 5, None, None)) is first
    assert gradient() == [5.0] * 3
    call = eager
    assert gradient() == [5.0] * 3
    assert slip_torch.register(artifacts["axpy"], "slip_test::axpy_again") is first  # says nothing of a derivative
    assert gradient() == [5.0] * 3
