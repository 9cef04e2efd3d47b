# SPDX-License-Identifier: Apache-2.0
"""torch.export and AOTInductor: graphs that outlive the process that traced them."""
import hashlib
import io
import os
import pathlib

import pytest
import torch
from test_process import passed

import slipstream

SIZE = torch.export.Dim("size", min=2, max=4096)


class Step(torch.nn.Module):
    """Writes an argument, writes intermediates, passes a size as a scalar."""

    def __init__(self, axpy, mix):
        super().__init__()
        self.axpy, self.mix = axpy, mix

    def forward(self, x, y, s):
        self.axpy(x, y, 3.0)
        out = torch.empty_like(x)
        a, b, c = self.mix(x * 2, out, s, x.shape[0], 1, True, 0.5)
        return a + y, b * 2, c + 1


def arguments(size):
    generator = torch.Generator().manual_seed(size)
    return torch.randn(size, generator=generator), torch.randn(size, generator=generator), torch.zeros(2, dtype=torch.int32)


def same_as_eager(module, exported, size):
    x, y, s = arguments(size)
    mine = (x.clone(), y.clone(), s.clone())
    expected, found = module(x, y, s), exported(*mine)
    torch.testing.assert_close(tuple(found), tuple(expected))
    torch.testing.assert_close(mine, (x, y, s))


@pytest.fixture(scope="module")
def module(axpy, mix):
    return Step(axpy, mix)


@pytest.fixture(scope="module")
def program(module):
    return torch.export.export(module, arguments(4), dynamic_shapes={"x": {0: SIZE}, "y": {0: SIZE}, "s": None})


def test_dynamic_sizes_and_written_arguments(module, program):
    called = [node for node in program.graph.nodes if "slip_test" in str(node.target)]
    assert [node.target for node in called] == [module.axpy.op, module.mix.op]
    assert isinstance(called[1].args[3], torch.fx.Node)  # the size is no constant
    for size in (4, 9, 1000):
        same_as_eager(module, program.module(), size)


def test_functional_form(module, program):
    """As compilers want it: no operator writes; written arguments are outputs."""
    functional = program.run_decompositions()
    assert "s" in functional.graph_signature.user_inputs_to_mutate.values() and "y" in functional.graph_signature.user_inputs_to_mutate.values()
    same_as_eager(module, functional.module(), 7)


def test_saved_and_loaded(module, program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    for size in (3, 64):
        same_as_eager(module, loaded.module(), size)


def test_a_number_as_argument(mix):
    class Count(torch.nn.Module):
        def forward(self, x, s, count: int):
            y = torch.empty_like(x)
            mix(x, y, s, count, 0, False, 1.0)
            return y

    exported = torch.export.export(Count(), (torch.zeros(4), torch.zeros(2, dtype=torch.int32), 3), dynamic_shapes={"x": {0: SIZE}, "s": None, "count": torch.export.Dim.DYNAMIC})
    for size, count in ((5, 7), (6, -2)):
        assert exported.module()(torch.zeros(size), torch.zeros(2, dtype=torch.int32), count).tolist() == [float(count)] * size


def test_wrong_calls_are_refused_while_they_are_traced(axpy):
    class Wrong(torch.nn.Module):
        def forward(self, x, y):
            return axpy(x.double(), y, 1.0)

    with pytest.raises(Exception, match="parameter 0 'x' .*torch.float64, expected f32"):
        torch.export.export(Wrong(), (torch.ones(3), torch.ones(3)))


@pytest.fixture(scope="module")
def package(program):
    """The program, compiled ahead of time: C++ that calls the operators through PyTorch's dispatcher. Takes half a minute, so it is kept beside the interpreter for the next run."""
    key = hashlib.sha256("\n".join((torch.__version__, str(program), pathlib.Path(__file__).read_text(encoding="utf-8"))).encode()).hexdigest()[:16]
    path = os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], f"slip_{key}.pt2")
    if not os.path.exists(path):
        made = torch._inductor.aoti_compile_and_package(program, package_path=f"{path[:-4]}-{os.getpid()}.pt2", inductor_configs={"aot_inductor.compile_wrapper_opt_level": "O0"})
        os.replace(made, path)
    return path


def test_ahead_of_time(module, package):
    compiled = torch._inductor.aoti_load_package(package)
    for size in (4, 9, 1000):
        same_as_eager(module, compiled, size)


def test_ahead_of_time_in_another_process(fresh, package):
    """The package has the operators by name: they are registered before it is loaded, and may be closed after it. Loaded by PyTorch's class for C++, since the one around it imports the compiler."""
    assert "ok" in passed(fresh(f"""
def load():
    return torch._C._aoti.AOTIModelPackageLoader({package!r}, "model", False, 1, -1)
try:
    load()
except RuntimeError as error:
    assert "slip_test::" in str(error), error
else:
    raise SystemExit("not refused")
st.init()
st.load(AXPY, "slip_test"), st.load(MIX, "slip_test")
compiled = load()
x, y, s = torch.ones(5), torch.zeros(5), torch.zeros(2, dtype=torch.int32)
a, b, c = compiled.boxed_run([x, y, s])
assert y.tolist() == [3.0] * 5 and a.tolist() == [-4.0] * 5 and b.tolist() == [2, 4] and s.tolist() == [1, 2], (y, a, b, c, s)
st.close()
try:
    compiled.boxed_run([x, y, s])
except RuntimeError:
    pass
else:
    raise SystemExit("not refused after close")
assert y.tolist() == [3.0] * 5
print("ok")
"""))
    assert slipstream.process_mode() == "kernel"
