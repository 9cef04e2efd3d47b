# SPDX-License-Identifier: Apache-2.0
"""Tracing: opcheck, torch.compile, symbolic sizes and scalars, views, mutation."""
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

import slipstream
import slipstream.torch as slip_torch
from slipstream.torch.registration import RegistrationSignature

BACKENDS = ("aot_eager", "inductor")


@pytest.fixture(autouse=True)
def forget():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_opcheck(axpy, mix):
    """All four: schema, autograd registration, fake tensor, ahead-of-time dispatch with dynamic shapes."""
    passed = {"test_schema": "SUCCESS", "test_autograd_registration": "SUCCESS", "test_faketensor": "SUCCESS", "test_aot_dispatch_dynamic": "SUCCESS"}
    assert torch.library.opcheck(axpy.op, (torch.randn(8), torch.randn(8), 1.5)) == passed
    assert torch.library.opcheck(axpy.op, (torch.randn(9)[1:], torch.randn(16)[8:], -2.0)) == passed
    assert torch.library.opcheck(mix.op, (torch.randn(8), torch.randn(8), torch.zeros(2, dtype=torch.int32), 3, 4, True, 0.5)) == passed


def test_opcheck_finds_a_wrong_schema(artifacts, context):
    """The negative control: an operator that writes what its schema does not say."""
    library = torch.library.Library("slip_liar", "DEF")
    library.define("add(Tensor x, Tensor y) -> ()")
    library.impl("add", lambda x, y: y.add_(x), "CPU")
    torch.library.register_fake("slip_liar::add", lambda x, y: None, lib=library)
    with pytest.raises(Exception, match="y"):
        torch.library.opcheck(torch.ops.slip_liar.add.default, (torch.ones(2), torch.ones(2)))
    library._destroy()


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_graph_for_all_sizes(axpy, backend):
    counter = CompileCounterWithBackend(backend)

    def step(x, y):
        z = y.clone()
        r = axpy(x * 2, z, 2.5)
        return r + z

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counter)
    for size in (8, 5, 1000, 4099):
        x, y = torch.randn(size), torch.randn(size)
        torch.testing.assert_close(compiled(x, y), step(x, y))
    assert counter.frame_count == 1
    assert [node.target for node in counter.graphs[0].graph.nodes if "slip" in str(node.target)] == [axpy.op]


@pytest.mark.parametrize("backend", BACKENDS)
def test_mutation_of_inputs_and_intermediates(axpy, backend):
    # Not `y * 1`: inductor takes that for y itself, whatever is written to y later (PyTorch 2.15, with any operator that mutates).
    def step(x, y):
        before = y * 2
        axpy(x, y, 2.0)
        middle = y * 2
        axpy(middle, y, -1.0)
        return before, middle, y + 1

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=backend)
    for size in (7, 64):
        x, y = torch.randn(size), torch.randn(size)
        mine = y.clone()
        expected, found = step(x, y), compiled(x, mine)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(mine, y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mutation_through_a_view(axpy, backend):
    def step(x, y):
        axpy(x, y[2:2 + x.shape[0]], 1.0)
        return y.sum()

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=backend)
    for size in (6, 9):
        x, y = torch.randn(size), torch.randn(size + 4)
        mine = y.clone()
        torch.testing.assert_close(compiled(x, mine), step(x, y))
        torch.testing.assert_close(mine, y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_wrapper_returns_its_arguments(mix, backend):
    """Return aliases: each element is the caller's own object, also inside a graph (where functionalisation replaces it by its new value)."""

    def step(x, s, count):
        y = torch.empty_like(x)
        a, b, c = mix(x, y, s, count, 1, False, 1.0)
        return a + c, b * 2

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=backend)
    for size, count in ((4, 3), (6, 9)):
        x, s = torch.randn(size), torch.zeros(2, dtype=torch.int32)
        mine = s.clone()
        expected = step(x, s, count)
        torch.testing.assert_close(compiled(x, mine, count), expected)
        assert mine.tolist() == s.tolist() == [1, 2]


def test_symbolic_scalars_reach_the_fake_kernel_unchanged(artifacts, context, monkeypatch):
    seen = []
    real = RegistrationSignature.fake
    monkeypatch.setattr(RegistrationSignature, "fake", lambda self, *args: (seen.append(args), real(self, *args))[1])
    mix = slip_torch.register(artifacts["mix"], "slip_symbols::mix")

    def step(x, s, count):
        y = torch.empty_like(x)
        mix(x, y, s, count + x.shape[0], 0, False, 1.0)
        return y

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    for size, count in ((5, 17), (8, 40)):
        x = torch.zeros(size)
        assert compiled(x, torch.zeros(2, dtype=torch.int32), count).tolist() == [float(count + size)] * size
    symbolic = [args for args in seen if isinstance(args[3], torch.SymInt)]
    assert symbolic, "no symbolic scalar reached the fake kernel"
    assert all(isinstance(args[0].shape[0], torch.SymInt) for args in symbolic)


@pytest.mark.parametrize("backend", BACKENDS)
@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_unbacked_sizes_and_scalars(mix, backend, monkeypatch):
    """Sizes and numbers that only a run knows: the fake kernel gets them as they are, and the graph passes on what item() gave."""
    seen = []
    real = RegistrationSignature.fake
    monkeypatch.setattr(RegistrationSignature, "fake", lambda self, *args: (seen.append((args[0].shape[0], args[3], args[6])), real(self, *args))[1])
    counter = CompileCounterWithBackend(backend)

    @torch.compile(fullgraph=True, backend=counter)
    def step(size, count, s):
        n = size.item()
        torch._check(n >= 0)
        x, y = torch.ones(n), torch.empty(n)
        mix(x, y, s, count.item(), 0, False, 2.0)
        return y

    for n, count in ((3, 10), (11, -4)):
        assert step(torch.tensor(n), torch.tensor(count), torch.zeros(2, dtype=torch.int32)).tolist() == [2.0 + count] * n
    assert counter.frame_count == 1
    assert all(isinstance(size, torch.SymInt) and isinstance(count, torch.SymInt) and a == 2.0 for size, count, a in seen), seen
    # What inductor has in its cache is not traced anew.
    assert backend == "inductor" or any(free_unbacked_symbols(size) and free_unbacked_symbols(count) for size, count, a in seen), seen
    node, = [node for node in counter.graphs[0].graph.nodes if node.target is mix.op]
    assert "item" in str(node.args[3].target)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wrong_call_is_refused_while_it_is_traced(axpy, backend):
    compiled = torch.compile(lambda x, y: axpy(x, y, 1.0), fullgraph=True, backend=backend)
    with pytest.raises(Exception, match="parameter 0 'x' .*torch.float64, expected f32"):
        compiled(torch.ones(3, dtype=torch.float64), torch.zeros(3))
    compiled = torch.compile(lambda x, y: axpy(x.t(), y, 1.0), fullgraph=True, backend=backend)
    with pytest.raises(Exception, match="parameter 0 'x' .*rank is 2"):
        compiled(torch.ones(3, 2), torch.zeros(3))


def test_a_module_without_gradients(axpy):
    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(6.0))

        def forward(self, x):
            out = x.clone()
            return axpy(self.weight, out, 0.5)

    model = Scale()
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(torch.ones(6)), torch.ones(6) + torch.arange(6.0) * 0.5)
