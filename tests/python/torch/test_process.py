# SPDX-License-Identifier: Apache-2.0
"""What belongs to the process: order of init and close, spawn and fork, the interpreter's end. Each in a process of its own."""
import pytest


def passed(done):
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("Fatal", "Segmentation", "Exception ignored"):
        assert word not in done.stderr, done.stderr
    return done.stdout


def test_calls_before_init(fresh):
    assert "ok" in passed(fresh("""
for attempt in (lambda: st.load(AXPY), lambda: st.register(AXPY, "slip::axpy")):
    try:
        attempt()
    except slipstream.InvalidStateError as error:
        assert "call slipstream.torch.init('cpu') first" in str(error), error
    else:
        raise SystemExit("not refused")
assert not hasattr(torch.ops.slip, "axpy")  # and nothing was registered
assert slipstream.process_mode() == "unclaimed"
print("ok")
"""))


@pytest.mark.parametrize("state", ["torch.inference_mode()", "torch.no_grad()", "torch.device('meta')", "FakeTensorMode()"])
def test_the_first_operator_is_registered_in_a_state(fresh, state):
    """What the caller's thread is in is nothing to how operators are made."""
    assert "ok" in passed(fresh(f"""
from torch._subclasses.fake_tensor import FakeTensorMode
from slipstream import _torch
st.init("cpu")
with {state}:
    axpy = st.load(AXPY, device="cpu")
assert _torch.believe(None, None) == (bool(_torch.probes() & 1), bool(_torch.probes() & 2))
y = torch.zeros(4)
assert axpy(torch.ones(4), y, 2.0) is y and y.tolist() == [2.0] * 4 and y._version == 1
try:
    axpy(torch.ones(4, requires_grad=True), y, 2.0)
except slipstream.InvalidArgumentError as error:
    print("ok" if "grad" in str(error) else error)
"""))


def test_init_again_and_with_other_options(fresh):
    assert "ok" in passed(fresh("""
first = st.init(max_in_flight=3)
assert st.init(max_in_flight=3) is first and st.init("cpu", max_in_flight=3) is first and st.init("cpu:0", max_in_flight=3) is first
try:
    st.init(max_in_flight=4)
except slipstream.ConflictError as error:
    assert "max_in_flight" in str(error), error
else:
    raise SystemExit("not refused")
st.close()
assert not first.initialized
print("ok")
"""))


def test_an_unknown_device(fresh):
    assert "ok" in passed(fresh("""
for device, error in (("xpu", slipstream.UnsupportedError), ("meta", slipstream.UnsupportedError)):
    try:
        st.init(device)
    except error as caught:
        assert "register_device" in str(caught), caught
    else:
        raise SystemExit("not refused")
print("ok")
"""))


def test_after_close(fresh):
    assert "ok" in passed(fresh("""
import re
def refused(call, error=slipstream.InvalidStateError):
    y = torch.zeros(3)
    try:
        call(torch.ones(3), y, 1.0)
    except error as caught:
        assert re.search("after close|CLOSED", str(caught)), caught
        assert y.tolist() == [0.0] * 3
    else:
        raise SystemExit("not refused")
st.init()
axpy = st.load(AXPY)
frame = axpy.frame(torch.ones(3), torch.zeros(3), 1.0)
st.close()
st.close()
refused(axpy)
refused(torch.ops.slip.axpy, RuntimeError)
refused(lambda *args: frame.launch())
try:
    st.load(AXPY)
except slipstream.InvalidStateError:
    pass
else:
    raise SystemExit("not refused")
# Opened again, the same name works, and so does everybody who holds it.
st.init()
assert st.load(AXPY) is axpy
y = torch.zeros(3)
axpy(torch.ones(3), y, 2.0)
torch.ops.slip.axpy(torch.ones(3), y, 1.0)
assert y.tolist() == [3.0] * 3
print("ok")
"""))


def test_fork_is_refused_with_the_remedy(fresh):
    assert "ok" in passed(fresh("""
import os
st.init()
axpy = st.load(AXPY)
y = torch.zeros(2)
axpy(torch.ones(2), y, 1.0)
child = os.fork()
if child == 0:
    code = 1
    try:
        axpy(torch.ones(2), y, 1.0)
    except slipstream.ForkedError as error:
        code = 0 if "spawn" in str(error) else 2
    except BaseException:
        code = 3
    try:
        st.init(max_in_flight=7)
        code = code or 4
    except slipstream.ForkedError:
        pass
    os._exit(code)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
axpy(torch.ones(2), y, 1.0)  # the parent goes on
assert y.tolist() == [2.0] * 2
print("ok")
"""))


def test_a_forked_child_may_use_it_if_the_parent_did_not(fresh):
    assert "ok" in passed(fresh("""
import os
child = os.fork()
if child == 0:
    st.init()
    y = torch.zeros(2)
    st.load(AXPY)(torch.ones(2), y, 1.0)
    os._exit(0 if y.tolist() == [1.0] * 2 else 1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
print("ok")
"""))


def test_spawn(fresh):
    """A spawned process and a data loader's worker, side by side."""
    assert "ok" in passed(fresh("""
import torch.multiprocessing as multiprocessing
import spawned
if __name__ == "__main__":
    st.init()  # the parent's claim does not matter to a spawned child
    loader = torch.utils.data.DataLoader(spawned.Rows(), batch_size=2, num_workers=1, multiprocessing_context="spawn", worker_init_fn=spawned.Start(AXPY))
    batches = iter(loader)
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(spawned.work, args=(AXPY, queue), nprocs=1, join=True)
    assert queue.get() == (0, [1.0] * 4)
    assert torch.cat(list(batches)).tolist() == [[2.0 * i] * 3 for i in range(4)]
    print("ok")
""", "-u"))


def test_a_forked_worker_of_a_data_loader(fresh):
    assert "ok" in passed(fresh("""
import spawned
st.init()
axpy = st.load(AXPY)
try:
    list(torch.utils.data.DataLoader(spawned.Rows(axpy), num_workers=1, multiprocessing_context="fork"))
except slipstream.ForkedError as error:
    assert "start workers with spawn" in str(error), error
else:
    raise SystemExit("not refused")
print("ok")
"""))


def test_a_pickled_operator_is_its_name(fresh, artifacts):
    assert "ok" in passed(fresh("""
import pickle
st.init()
axpy = st.load(AXPY)
data = pickle.dumps({"operator": axpy})
assert pickle.loads(data)["operator"] is axpy
other = pickle.dumps(axpy).replace(b"a: f32", b"b: f32")
try:
    pickle.loads(other)
except slipstream.ConflictError as error:
    assert "where it was pickled" in str(error), error
else:
    raise SystemExit("not refused")
open("DATA", "wb").write(data)
print("ok")
""".replace("DATA", artifacts["axpy"] + ".pickle")))
    assert "ok" in passed(fresh("""
import pickle
data = open("DATA", "rb").read()
try:
    pickle.loads(data)
except slipstream.InvalidStateError as error:
    assert "slip::axpy is not registered in this process" in str(error) and "load() or register() here first" in str(error), error
else:
    raise SystemExit("not refused")
st.init()
axpy = st.load(AXPY)
assert pickle.loads(data)["operator"] is axpy
print("ok")
""".replace("DATA", artifacts["axpy"] + ".pickle")))


def test_a_reload_after_use(fresh):
    """What PyTorch and the device know outlives a reload of the modules, so the reloaded ones must, too."""
    assert "ok" in passed(fresh("""
import importlib
import slipstream.torch as package
from slipstream.torch import devices, errors, npu, ops, registration, signature, transforms
st.register_device("imaginary", "sim", print)
context = st.init()
axpy = st.load(AXPY)
y = torch.zeros(3)
for module in (errors, devices, npu, transforms, signature, registration, ops, package):
    importlib.reload(module)
assert package.load is ops.load is not None and st is package
assert st.init() is context and st.load(AXPY) is axpy
again = st.register(AXPY, "slip::after_reload")
for operator in (axpy, again, torch.ops.slip.axpy):
    operator(torch.ones(3), y, 1.0)
assert y.tolist() == [3.0] * 3
for operator in (axpy, again):
    try:
        operator(torch.ones(4), y, 1.0)
    except slipstream.InvalidArgumentError:
        pass
    else:
        raise SystemExit("not refused")
try:
    st.register_device("imaginary", "cpu", print)
except slipstream.ConflictError:
    pass
else:
    raise SystemExit("not refused")
st.close()
assert not context.initialized
try:
    axpy(torch.ones(3), y, 1.0)
except slipstream.InvalidStateError:
    pass
else:
    raise SystemExit("not refused")
print("ok")
"""))


def test_more_operators_than_places(fresh):
    """A process has room for 256 operators in C; the next ones run through the interpreter, and nobody notices."""
    assert "ok" in passed(fresh("""
st.init()
artifact = slipstream.load(AXPY)
made = [st.register(artifact, f"slip_many{n % 3}::axpy_{n}") for n in range(260)]
places = [operator._kernels["cpu"].op for operator in made]
assert places[:256] == list(range(256)) and places[256:] == [-1] * 4, places
y = torch.zeros(3)
for operator in made:
    operator(torch.ones(3), y, 1.0)
torch.ops.slip_many1.axpy_259(torch.ones(3), y, 1.0)
assert y.tolist() == [261.0] * 3
for operator in made[255:257]:
    try:
        operator(torch.ones(4), y, 1.0)
    except slipstream.InvalidArgumentError as error:
        assert "N = 4" in str(error), error
    else:
        raise SystemExit("not refused")
print("ok")
"""))


def test_the_end_with_everything_open(fresh):
    assert "ok" in passed(fresh("""
import threading
st.init()
axpy = st.load(AXPY)
frame = axpy.frame(torch.ones(3), torch.zeros(3), 1.0)
started = threading.Event()
def work():
    x, y = torch.ones(1000), torch.zeros(1000)
    try:
        while True:
            axpy(x, y, 1.0)
            started.set()
    except slipstream.SlipError:
        pass  # closed at exit
threading.Thread(target=work, daemon=True).start()
started.wait()
print("ok", flush=True)
"""))


def test_the_end_inside_a_failing_program(fresh):
    done = fresh("st.init()\naxpy = st.load(AXPY)\nraise SystemExit(7)\n")
    assert done.returncode == 7 and "Fatal" not in done.stderr


def test_program_mode_is_not_taken_over(fresh):
    """Loading and describing claims nothing; only init() does."""
    assert "ok" in passed(fresh("""
slipstream.load(AXPY)
st.RegistrationSignature(slipstream.load(AXPY))
st.CallSignature(slipstream.load(AXPY)).bind(torch.ones(2), torch.zeros(2), 1.0)
assert slipstream.process_mode() == "unclaimed"
st.init()
assert slipstream.process_mode() == "kernel"
print("ok")
"""))


def test_without_the_shim_operators_run_through_the_interpreter(fresh):
    """An older PyTorch: the same answers and refusals, only slower."""
    assert "ok" in passed(fresh("""
from slipstream.torch import ops
import slipstream._torch as c
class NoShim:
    def __getattr__(self, name):
        return (lambda *_: "aoti_torch_library_impl") if name == "attach" else getattr(c, name)
ops._torch = NoShim()
st.init()
axpy = st.load(AXPY)
assert axpy._kernels["cpu"].op == -1
y = torch.zeros(3)
assert axpy(torch.ones(3), y, 2.0) is y and y.tolist() == [2.0] * 3 and y._version == 1
for bad, text in (((torch.ones(3, requires_grad=True), y, 1.0), "requires grad"), ((torch.ones(4), y, 1.0), "N = 4"), ((torch._neg_view(torch.ones(3)), y, 1.0), "neg")):
    for call in (axpy, axpy.op):
        try:
            call(*bad)
        except slipstream.InvalidArgumentError as error:
            assert text in str(error), error
        else:
            raise SystemExit("not refused: " + text)
assert y.tolist() == [2.0] * 3
print("ok")
"""))


def test_without_the_probes_python_kernels_check_and_count(fresh):
    """A PyTorch whose internal functions have gone: the kernel stays in C, what it cannot see is done above it."""
    assert "ok" in passed(fresh("""
import slipstream._torch as c
from slipstream.torch import ops
class NoProbes:
    def __getattr__(self, name):
        return (lambda: 0) if name == "probes" else getattr(c, name)
ops._torch = NoProbes()
st.init()
axpy = st.load(AXPY)
assert axpy._kernels["cpu"].op >= 0 and c.believe(None, None) == (False, False)
y = torch.zeros(3)
assert axpy(torch.ones(3), y, 2.0) is y and y.tolist() == [2.0] * 3 and y._version == 1
for call in (axpy, axpy.op):
    try:
        call(torch.ones(3, requires_grad=True), y, 1.0)
    except slipstream.InvalidArgumentError as error:
        assert "'x' (in): the tensor requires grad" in str(error), error
    else:
        raise SystemExit("not refused")
with torch.no_grad():
    axpy(torch.ones(3, requires_grad=True), y, 1.0)
assert y.tolist() == [3.0] * 3
print("ok")
"""))


def test_a_fork_while_another_thread_registers(fresh):
    """The lock that a thread of the parent holds is not the child's."""
    assert "ok" in passed(fresh("""
import os, threading
from slipstream.torch import devices, ops
held, done = threading.Event(), threading.Event()

def hold():
    with ops._lock, devices._lock:
        held.set()
        done.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    st.init()  # nothing was claimed before the fork
    y = torch.zeros(2)
    os._exit(0 if st.load(AXPY)(torch.ones(2), y, 2.0) is y and y.tolist() == [2.0, 2.0] else 1)
status = os.waitpid(child, 0)[1]
done.set()
thread.join()
print("ok" if status == 0 else status)
"""))
