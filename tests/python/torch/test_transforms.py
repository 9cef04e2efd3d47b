# SPDX-License-Identifier: Apache-2.0
"""What PyTorch puts around tensors and calls: torch.func, forward mode, modes, subclasses, autocast, checkpoints, the profiler. Each works, or is refused in words."""
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import slipstream
import slipstream.torch as slip_torch


@pytest.fixture(scope="module")
def differentiable(artifacts, context):
    return slip_torch.register(artifacts["axpy"], "slip_test::axpy_transformed", backward=lambda args, grad: (grad * args[2], grad, None))


@pytest.fixture(params=["operator", "op"])
def call(request, axpy):
    return axpy if request.param == "operator" else lambda x, y, a: (axpy.op(x, y, a), y)[1]


# --- torch.func: without a rule of ours PyTorch would run the operator on what is inside the wrappers, and answer zero for a gradient ------------------
@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev, torch.func.grad_and_value], ids=lambda t: t.__name__)
def test_no_gradient_is_better_than_a_wrong_one(call, transform):
    with pytest.raises(slipstream.InvalidArgumentError, match=r"parameter 0 'x' \(in\): a transform of torch.func takes the derivative .* name backward="):
        transform(lambda x: call(x, torch.zeros(3), 1.0).sum())(torch.ones(3))


def test_a_gradient_with_respect_to_something_else(call):
    assert torch.func.grad(lambda x: (x * call(torch.ones(3), torch.zeros(3), 5.0)).sum())(torch.ones(3)).tolist() == [5.0] * 3
    assert torch.func.grad(lambda x: (x * call(x.detach(), torch.zeros(3), 5.0)).sum())(torch.ones(3)).tolist() == [5.0] * 3


def test_each_level_is_looked_at(call):
    def twice(pick):
        def inner(x, z):
            return (x * z * call(pick(x, z), torch.zeros(3), 5.0)).sum()

        return torch.func.grad(lambda z: torch.func.grad(inner)(torch.ones(3), z).sum())(torch.ones(3))

    assert twice(lambda x, z: torch.ones(3)).tolist() == [5.0] * 3
    for pick in (lambda x, z: x, lambda x, z: z):
        with pytest.raises(slipstream.InvalidArgumentError, match="takes the derivative"):
            twice(pick)


def test_a_transform_notices_what_is_written(call):
    def loss(x):
        y = torch.ones(3)
        product = x * y  # saves y
        call(torch.ones(3), y, 1.0)
        return product.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.func.grad(loss)(torch.ones(3))


def test_torch_func_uses_the_derivative(differentiable):
    assert torch.func.grad(lambda x: differentiable(x * 1, x * 2, 4.0).sum())(torch.ones(3)).tolist() == [6.0] * 3
    torch.testing.assert_close(torch.func.jacrev(lambda x: differentiable(x * 1, x * 2, 4.0))(torch.ones(3)), torch.eye(3) * 6)
    mixed = torch.func.grad(lambda z: torch.func.grad(lambda x: differentiable(x * z, torch.zeros(3), 5.0).sum())(torch.ones(3)).sum())
    assert mixed(torch.ones(3)).tolist() == [5.0] * 3


def test_vmap(call, differentiable):
    """There is no batching rule. What does not depend on the batch is called once."""
    for which, arguments in (("0 'x'", (torch.ones(2, 3), torch.zeros(3))), ("1 'y'", (torch.ones(3), torch.zeros(2, 3)))):
        dims = tuple(0 if a.dim() == 2 else None for a in arguments)
        for one in (call, differentiable):
            with pytest.raises(slipstream.UnsupportedError, match=f"parameter {which} .*batched by vmap"):
                torch.vmap(lambda x, y, one=one: one(x, y, 1.0), in_dims=dims)(*arguments)
        assert all(a.eq(a.flatten()[0]).all() for a in arguments)
    assert torch.vmap(lambda x: x * call(torch.ones(3), torch.zeros(3), 4.0))(torch.ones(2, 3)).tolist() == [[4.0] * 3] * 2


def test_functionalize(call):
    with pytest.raises(slipstream.UnsupportedError, match="functionalize, which takes no operator that writes"):
        torch.func.functionalize(lambda x, y: call(x, y, 1.0))(torch.ones(3), torch.zeros(3))


def test_forward_mode_by_torch_func(call):
    with pytest.raises(slipstream.UnsupportedError, match="no forward-mode derivative"):
        torch.func.jvp(lambda x: call(x, torch.zeros(3), 1.0), (torch.ones(3),), (torch.ones(3),))


def test_dual_tensors(axpy, differentiable):
    y = torch.zeros(3)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(3), torch.ones(3))
        for one in (axpy, differentiable, axpy.frame):
            with pytest.raises(slipstream.UnsupportedError, match="parameter 0 'x' .*a dual tensor"):
                one(x, y, 1.0)
            with pytest.raises(slipstream.UnsupportedError, match="parameter 1 'y' .*a dual tensor"):
                one(y, x, 1.0)
        axpy(forward_ad.unpack_dual(x).primal, y, 2.0)
        axpy(torch.ones(3), y, 2.0)
    assert y.tolist() == [4.0] * 3
    axpy(x, y, 1.0)  # a dual level that is over leaves an ordinary tensor


def test_a_frame_takes_no_wrappers(axpy):
    with pytest.raises(slipstream.InvalidArgumentError, match="parameter 0 'x' .*torch.func wraps"):
        torch.vmap(lambda x: axpy.frame(x, torch.zeros(3), 1.0).launch())(torch.ones(2, 3))


@pytest.mark.parametrize("inner", ["operator", "differentiable"])
def test_torch_func_compiled(axpy, differentiable, inner):
    torch._dynamo.reset()
    one = axpy if inner == "operator" else differentiable

    @torch.compile(backend="aot_eager", fullgraph=True)
    def compiled(x):
        return torch.func.grad(lambda x: one(x * 1, torch.zeros(3), 4.0).sum())(x)

    if inner == "differentiable":
        assert compiled(torch.ones(3)).tolist() == [4.0] * 3
    else:
        with pytest.raises(Exception, match="takes the derivative"):
            compiled(torch.ones(3))
    torch._dynamo.reset()


# --- modes and subclasses --------------------------------------------------------------------------------------------------------------------------
class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls.append((function, args))
        return function(*args, **(kwargs or {}))


def test_a_dispatch_mode_sees_the_operator(axpy):
    x, y = torch.ones(3), torch.zeros(3)
    with Seen() as seen:
        assert axpy(x, y, 2.0) is y
    (function, args), = seen.calls
    assert function is axpy.op and args[0] is x and args[1] is y and args[2] == 2.0 and y.tolist() == [2.0] * 3
    with Seen() as seen, pytest.raises(slipstream.InvalidArgumentError, match="'y' .*N = 3"):
        axpy(x, torch.zeros(4), 1.0)


def test_a_function_mode_sees_the_operator(axpy):
    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            calls.append(function)
            return function(*args, **(kwargs or {}))

    calls, x, y = [], torch.ones(3), torch.zeros(3)
    with Functions():
        axpy(x, y, 1.0)
    assert calls == [axpy.op] and y.tolist() == [1.0] * 3


def test_subclasses_with_torch_function(axpy):
    class Named(torch.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.calls.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    x, y = torch.ones(3).as_subclass(Named), torch.zeros(3).as_subclass(Named)
    Named.calls.clear()
    assert axpy(x, y, 2.0) is y
    assert axpy.op in Named.calls
    assert y.as_subclass(torch.Tensor).tolist() == [2.0] * 3
    assert axpy.frame(x, y, 1.0).launch() is y and y.as_subclass(torch.Tensor).tolist() == [3.0] * 3


def test_a_wrapper_subclass_unwraps_itself(axpy):
    """As quantisation, sharding and logging wrappers do: the operator reaches __torch_dispatch__, which calls it on what is inside."""

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            return function(*(a.inner if isinstance(a, cls) else a for a in args), **(kwargs or {}))

    x, y = torch.ones(3), torch.zeros(3)
    wrapped = Wrapper(y)
    assert axpy(Wrapper(x), wrapped, 2.0) is wrapped and y.tolist() == [2.0] * 3
    with pytest.raises(slipstream.InvalidArgumentError, match="'y' .*N = 3"):
        axpy(Wrapper(x), Wrapper(torch.zeros(4)), 2.0)


# --- autocast, checkpoints, the profiler ---------------------------------------------------------------------------------------------------------
def test_autocast_changes_nothing(axpy):
    """As with any operator that autocast has no rule for: tensors come as they are, and one that autocast made is checked as any other."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x, y = torch.ones(3), torch.zeros(3)
        axpy(x, y, 2.0)
        assert y.dtype == torch.float32 and y.tolist() == [2.0] * 3
        lowered = torch.ones(3, 3) @ torch.ones(3, 3)
        assert lowered.dtype == torch.bfloat16
        with pytest.raises(slipstream.InvalidArgumentError, match="'x' .*expected f32.*bf16"):
            axpy(lowered[0], y, 1.0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(differentiable, reentrant):
    def step(x):
        return differentiable(x * 2, torch.zeros(3), 3.0).sin()

    x = torch.ones(3, requires_grad=True)
    checkpoint(step, x, use_reentrant=reentrant).sum().backward()
    found, x.grad = x.grad, None
    step(x).sum().backward()
    torch.testing.assert_close(found, x.grad)


def test_saved_tensors_hooks(differentiable):
    x = torch.ones(3, requires_grad=True)
    packed = []
    with torch.autograd.graph.save_on_cpu():
        result = differentiable(x * 2, torch.zeros(3), 3.0)
    result.sum().backward()
    assert x.grad.tolist() == [6.0] * 3
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(t), t)[1], lambda t: t):
        differentiable(x, torch.zeros(3), 3.0)
    assert len(packed) == 2


def test_second_derivatives(differentiable):
    x = torch.ones(3, requires_grad=True)
    result = differentiable(x * 2, torch.zeros(3), 3.0)
    first, = torch.autograd.grad((result * result).sum(), x, create_graph=True)
    second, = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [72.0] * 3 and second.tolist() == [72.0] * 3


def test_the_profiler_records_shapes(axpy):
    x, y = torch.ones(5), torch.zeros(5)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        axpy(x, y, 1.0)
    shapes, = [event.input_shapes for event in profiler.events() if event.name == "slip_test::axpy"]
    assert shapes == [[5], [5], []]
