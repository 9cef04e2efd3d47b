# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch as arguments of a plain Callable: read by PyTorch's own C functions, or as any library's where those are not there or not believed."""
import gc
import threading

import plain
import pytest
import slipstream
import torch

OPEN = "import plain, threading\ncontext = slipstream.kernel.open(single_thread=True)\nf = context.prepare(slipstream.load(AXPY))\n"
ALL = """
for name, (make, text) in list(plain.REFUSED.items()) + (list(plain.BOUNDS.items()) if direct else []):
    plain.refuse(f, make, text)
for name, make in plain.TAKEN.items():
    plain.take(f, make)
with torch.no_grad():
    plain.take(f, lambda: torch.ones(4, requires_grad=True))
    plain.refuse(f, *plain.REFUSED["neg view"])
"""


@pytest.fixture(scope="module")
def f(context, artifacts):
    return context.prepare(slipstream.load(artifacts["axpy"]))


@pytest.fixture(scope="module")
def wait(context, artifacts):
    return context.prepare(slipstream.load(artifacts["wait"]))


def passed(done):
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stdout + done.stderr
    assert "Fatal" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr


@pytest.mark.parametrize("name", [*plain.REFUSED, *plain.BOUNDS])
def test_refused(f, name):
    plain.refuse(f, *{**plain.REFUSED, **plain.BOUNDS}[name])


@pytest.mark.parametrize("name", [*plain.REFUSED, *plain.BOUNDS])
def test_refused_by_launch(f, name):
    with slipstream.Stream() as stream:
        make, text = {**plain.REFUSED, **plain.BOUNDS}[name]
        # The form that is kept is refused earlier by PyTorch itself, in words of its own.
        plain.refuse(lambda *args: f.launch(stream, *args), make, text + "|'x'.*requires? grad" if "grad" in text else text)


@pytest.mark.parametrize("name", plain.TAKEN)
def test_taken(f, name):
    plain.take(f, plain.TAKEN[name])

    def launched(x, y, a):
        with slipstream.Stream() as stream:
            return f.launch(stream, x, y, a).wait()

    plain.take(launched, plain.TAKEN[name])


def test_outputs_are_asked_too(f):
    for y, text in ((torch.zeros(4, requires_grad=True), "requires grad"), (torch._neg_view(torch.zeros(4)), "neg view"), (plain.shrunk(torch.zeros(4), 12), "storage of 12 bytes")):
        with pytest.raises(slipstream.InvalidArgumentError, match="'y'.*" + text):
            f(torch.ones(4), y, 1.0)
    base = torch.zeros(8)
    with pytest.raises(slipstream.InvalidArgumentError, match="overlap"):
        f(base[:4], base[2:6], 1.0)
    f(base[:4] + 1, base[4:], 1.0)  # one storage, no byte in common
    assert base.tolist() == [0] * 4 + [1] * 4


def test_without_autograd(f):
    leaf = lambda: torch.ones(4, requires_grad=True)  # noqa: E731
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            plain.take(f, leaf)
            plain.take(f, lambda: torch.nn.Parameter(torch.ones(4)))
            plain.refuse(f, *plain.REFUSED["neg view"])
            with torch.enable_grad():
                if not torch.is_inference_mode_enabled():
                    plain.refuse(f, leaf, "requires grad")
        plain.refuse(f, leaf, "requires grad")
    with torch.inference_mode():
        inference = torch.ones(4)
    plain.take(f, lambda: inference)


def test_transforms(f):
    """Inside them a tensor is of the type torch.Tensor, but only a wrapper."""
    seen = []

    def inside(x):
        plain.refuse(f, lambda: x, "'x'")
        seen.append(type(x))
        return x.sum()

    torch.func.vmap(inside)(torch.ones(3, 4))
    torch.func.grad(inside)(torch.ones(4))
    torch.func.jvp(inside, (torch.ones(4),), (torch.ones(4),))
    assert seen == [torch.Tensor] * 3

    def functional(x):
        y = torch.zeros(4)  # a wrapper as well
        with pytest.raises(slipstream.InvalidArgumentError, match="'x'.*null address"):
            f(x, y, 1.0)
        return x.sum()

    torch.func.functionalize(functional)(torch.ones(4))


def test_empty_tensors(f):
    empty = torch.zeros(0)
    assert f(torch.zeros(4).as_strided((0,), (1,), 1 << 40), empty, 1.0) is empty
    assert f(torch.zeros(4)[2:2], empty, 1.0) is empty
    assert f(plain.shrunk(torch.zeros(0), 0), empty, 1.0) is empty


def test_a_tensor_of_ours_knows_the_storage():
    mine = slipstream.Tensor(torch.arange(8.0)[2:6])
    assert mine.shape == (4,) and mine.numpy().tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("change", ["x.set_(torch.zeros(1))", "x.data = torch.zeros(1)", "torch.utils.swap_tensors(x, torch.zeros(1))", "del x"])
def test_launches_keep_the_storage(f, wait, change):
    flag, done = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    x, y = torch.ones(4096), torch.zeros(4096)
    with slipstream.Stream() as stream:
        try:
            wait.launch(stream, flag, done)
            f(x, y, 2.0, stream=stream)
            names = {"torch": torch, "x": x}
            del x
            exec(change, names)  # the object may live on, with another storage
            gc.collect()
            clobber = [torch.full((4096,), 7.0) for _ in range(64)]
        finally:
            flag[0] = 1
        stream.synchronize()
    assert done[0] == 1 and len(clobber) == 64
    assert y.tolist() == [2.0] * 4096


def test_threads(f):
    failures = []

    def work(number):
        try:
            for turn in range(300):
                y = torch.zeros(4)
                f(torch.full((4,), float(number)), y, 2.0)
                assert y.tolist() == [2.0 * number] * 4
                if turn % 50 == 0:
                    plain.refuse(f, *plain.REFUSED["requires grad"])
                with torch.no_grad():  # of this thread
                    plain.take(f, lambda: torch.ones(4, requires_grad=True))
        except BaseException as error:  # noqa: B036
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_inside_a_compiled_function(f):
    def call(x, y):
        torch._dynamo.graph_break()
        f(x, y, 1.0)
        return y * 2

    compiled = torch.compile(call, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(4), torch.zeros(4)).tolist() == [2.0] * 4


# --- which way is taken, each in a process of its own -----------------------------------------------------------------------------------


def test_nothing_is_asked_in_python(fresh):
    passed(fresh(OPEN + """
count = plain.count_questions()
f(torch.ones(4), torch.zeros(4), 1.0)
once = count[0]
assert once > 0  # by the probes
for make in plain.TAKEN.values():
    plain.take(f, make)
assert count[0] == once, count
direct = True
""" + ALL + "print('ok')\n"))


@pytest.mark.parametrize("name, lie", [("_cdata", "property(lambda self: 4096)"), ("data_ptr", "lambda self: 4096")])
def test_a_probe_that_comes_out_wrong(fresh, name, lie):
    """Python tells something else than the C functions: these are not believed, once and for all, and the usual way refuses the same."""
    passed(fresh(OPEN + f"""
count = plain.count_questions()
torch.Tensor.{name} = {lie}
f(torch.ones(4), torch.zeros(4), 1.0)
del torch.Tensor.{name}  # what it inherits is seen again
before = count[0]
for turn in range(1, 100):
    f(torch.ones(4), torch.zeros(4), 1.0)
    assert count[0] == before + 2 * turn, (count, turn)  # of the call's tensors, and no probe
direct = False
""" + ALL + "print('ok')\n"))


def test_probes_that_never_can_be_made(fresh):
    """They are given up after some tries."""
    passed(fresh(OPEN + """
count = plain.count_questions()
torch.Tensor.untyped_storage = None
for turn in range(100):
    f(torch.ones(4), torch.zeros(4), 1.0)
del torch.Tensor.untyped_storage
before = count[0]
for turn in range(1, 100):
    f(torch.ones(4), torch.zeros(4), 1.0)
    assert count[0] == before + 2 * turn, (count, turn)
direct = False
""" + ALL + "print('ok')\n"))


FIRST = {
    "dispatch mode": (False, """
from torch.utils._python_dispatch import TorchDispatchMode
seen = []
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        seen.append(function)
        return function(*args, **(kwargs or {}))
x, y = torch.ones(4), torch.zeros(4)
with Mode():
    f(x, y, 1.0)
assert not seen, seen  # the mode sees none of the probes
"""),
    "fake mode": (False, """
from torch._subclasses.fake_tensor import FakeTensorMode
x, y = torch.ones(4), torch.zeros(4)
with FakeTensorMode():
    f(x, y, 1.0)
assert y.tolist() == [1.0] * 4
"""),
    "vmap": (False, """
y = torch.zeros(4)
torch.func.vmap(lambda t: (plain.take(f, lambda: torch.ones(4)), t)[1])(torch.ones(3, 4))
"""),
    "grad": (False, """
x, y = torch.ones(4), torch.zeros(4)
torch.func.grad(lambda t: (f(x, y, 1.0), t.sum())[1])(torch.ones(4))
assert y.tolist() == [1.0] * 4
"""),
    "no_grad": (True, "with torch.no_grad():\n    plain.take(f, lambda: torch.ones(4, requires_grad=True))\n"),
    "inference": (True, "with torch.inference_mode():\n    plain.take(f, lambda: torch.ones(4))\n"),
    "defaults": (True, """
torch.set_default_device("meta")
torch.set_default_dtype(torch.float64)
f(torch.ones(4, device="cpu", dtype=torch.float32), torch.ones(4, device="cpu", dtype=torch.float32), 1.0)
torch.set_default_device(None)
torch.set_default_dtype(torch.float32)
"""),
    "subclass": (True, "plain.take(f, lambda: torch.ones(4).as_subclass(plain.Marked))\n"),
    "fake": (True, "plain.refuse(f, *plain.REFUSED['fake'])\nplain.take(f, lambda: torch.ones(4))\n"),
    "asynchronous": (True, "with slipstream.Stream() as stream:\n    f.launch(stream, torch.ones(4), torch.zeros(4), 1.0).wait()\n"),
    "threads": (True, """
begin = threading.Barrier(4)
def work():
    begin.wait()
    for _ in range(20):
        plain.take(f, lambda: torch.ones(4))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_call(fresh, name):
    """Probes are put off where tensors cannot be made as they want them; they come out right everywhere else."""
    at_once, program = FIRST[name]
    passed(fresh(OPEN + "count = plain.count_questions()\n" + program + f"""
before = count[0]
f(torch.ones(4), torch.zeros(4), 1.0)
assert not {at_once} or count[0] == before, (before, count)
before = count[0]
f(torch.ones(4), torch.zeros(4), 1.0)
assert count[0] == before, (before, count)
direct = True
""" + ALL + "print('ok')\n"))
