# SPDX-License-Identifier: Apache-2.0
"""The simulator: memory that is not the host's, streams, capture. In processes of their own: a context of `sim` and its rules."""
import pytest



@pytest.fixture
def on_sim(python, artifacts):
    """Runs code with a context of sim:0, the callable axpy, a stream, and x = ones, y = zeros on the device."""
    def run(code):
        head = """
import numpy as np
from slipstream import sim
sim.reset(delay_ns=0)
context = slip.kernel.open("sim:0")
f = context.prepare(slip.load(folder + "/axpy.slipc"))
stream = slip.Stream("sim:0")
def device(values):
    return slip.empty(len(values), "f32", device="sim:0").copy_from(np.array(values, np.float32))
x, y = device([1, 1, 1, 1]), device([0, 0, 0, 0])
def host(t):
    return t.numpy().tolist()
def refused(kind, call, *args, **named):
    try:
        call(*args, **named)
    except kind as error:
        return str(error)
    raise SystemExit("not refused")
"""
        tail = """
context.close()
stream.close()
assert not sim.violations(), sim.violations()
print("end")
"""
        done = python(head + code + tail)
        assert done.stdout.endswith("end\n"), done.stdout + done.stderr
    return run


def test_launch(on_sim):
    on_sim("""
assert x.device == "sim:0" and "sim:0" in repr(x)
t = f.launch(stream, x, y, 2.0)
assert t.wait() is y and host(y) == [2, 2, 2, 2]
f(x, y, 1.0, stream=stream)
stream.synchronize()
assert host(y) == [3, 3, 3, 3]
assert host(x.to_host()) == [1, 1, 1, 1]
""")


def test_refusals(on_sim):
    on_sim("""
assert "stream=" in refused(slip.InvalidArgumentError, f, x, y, 1.0)
h = np.zeros(4, np.float32)
assert "'y'" in refused(slip.InvalidArgumentError, f, x, h, 1.0, stream=stream)
refused(slip.SlipError, f, x, y, 1.0, stream=slip.INLINE)
refused(BufferError, memoryview, x)
refused(slip.SlipError, x.__dlpack__)
refused(slip.SlipError, slip.empty, 1 << 50, device="sim:0")
sim.set_device(1)
other = slip.empty(4, device="sim:1")
other_stream = slip.Stream("sim:1")
sim.set_device(0)
assert "'x'" in refused(slip.InvalidArgumentError, f, other, y, 1.0, stream=stream)
refused(slip.UnsupportedError, other.copy_from, x)
refused(slip.InvalidArgumentError, f, x, y, 1.0, stream=other_stream)
sim.set_device(1)
other_stream.close()
del other
sim.set_device(0)
""")


def test_capture(on_sim):
    on_sim("""
assert stream.capture_state() == "none"
stream.capture_begin("relaxed")
assert stream.capture_state() == "active"
captured = f.launch(stream, x, y, 1.0)
assert not captured.query()
graph = stream.capture_end()
assert host(y) == [0, 0, 0, 0]
graph.launch(stream)
graph.launch(stream)
f(x, y, 10.0, stream=stream)
graph.launch(stream)
stream.synchronize()
assert host(y) == [13, 13, 13, 13]
refused(slip.InvalidStateError, captured.wait, 1)
graph.close()
refused(slip.InvalidStateError, graph.launch, stream)
""")


def test_illegal_in_capture(on_sim):
    on_sim("""
stream.capture_begin()
for call in (context.drain, context.close, lambda: context.prepare(slip.load(folder + "/axpy.slipc")), f.close):
    error = refused(slip.CaptureUnsupportedError, call)
f(x, y, 1.0, stream=stream)  # the capture is still good
with stream.capture_end() as graph:
    graph.launch(stream)
    stream.synchronize()
    assert host(y) == [1, 1, 1, 1]
""")


def test_captured_tensors_are_kept(on_sim):
    on_sim("""
import sys, gc
stream.capture_begin()
count = sys.getrefcount(y)
f(x, y, 1.0, stream=stream)
graph = stream.capture_end()
assert sys.getrefcount(y) == count + 1
twin = y.slice(0, 0, 4)
del y
gc.collect()
graph.launch(stream)
stream.synchronize()
assert host(twin) == [1, 1, 1, 1]
graph.close()
context.drain()
""")


def test_device_fault(python):
    done = python("""
import numpy as np
from slipstream import sim
sim.reset(delay_ns=0)
context = slip.kernel.open("sim:0")
sim.fail_call("memory_allocate", 1)
try:
    slip.empty(4, device="sim:0")
    print("not refused")
except slip.SlipError as error:
    print(error.name)
sim.fail_clear()
stream = slip.Stream("sim:0")
f = context.prepare(slip.load(folder + "/axpy.slipc"))
x = slip.empty(4, device="sim:0")
sim.break_device(0)
try:
    f.launch(stream, x, x, 1.0).wait()
    print("not refused")
except slip.SlipError as error:
    print(error.name, error.platform_code != 0)
""", check=False)
    lines = done.stdout.split("\n")
    assert lines[0] in ("OUT_OF_MEMORY", "DEVICE") and lines[1] in ("DEVICE True", "POISONED True", "POISONED False"), done.stdout + done.stderr


def test_ascend_flavour(python):
    python("""
from slipstream import sim
sim.reset("ascend", seed=3, memory_bytes=1 << 20)
try:
    sim.reset("abacus")
    raise SystemExit("not refused")
except slip.InvalidArgumentError:
    pass
sim.set_device(1)
try:
    slip.kernel.open("sim:0")
    raise SystemExit("not refused")
except slip.InvalidArgumentError as error:
    assert "current" in str(error), error
with slip.kernel.open("sim:1"):
    pass
""")
