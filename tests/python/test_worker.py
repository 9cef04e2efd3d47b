# SPDX-License-Identifier: Apache-2.0
"""Program mode: workers, programs, runs, their memory. In processes of their own: a process is in one mode for its life."""
import pytest

HEAD = """
import gc
import threading
import numpy as np
def load(name):
    return slip.load(folder + "/program/" + name + ".slipc")
def refused(kind, call, *args, **named):
    try:
        call(*args, **named)
    except kind as error:
        assert error.code is not None and str(error), error
        return str(error)
    raise SystemExit("not refused")
def ones(n=4, value=1):
    return np.full(n, value, np.float32)
"""


@pytest.fixture
def program(python, artifacts):
    """program(code): runs code in an interpreter of its own, with the named programs under the program contract."""
    def run(code, *flags, names=("axpy", "scale"), head="", **named):
        for name in names:
            artifacts("program", name)
        done = python(head + HEAD + code + "\nprint('end')\n", *flags, **named)
        if named.get("check", True):
            assert done.stdout.endswith("end\n") and done.stderr == "", done.stdout + done.stderr
        return done
    return run


WORKER = "worker = slip.Worker()\naxpy, scale = worker.register(load('axpy')), worker.register(load('scale'))\n"


# --- life --------------------------------------------------------------------------------------------------------------------------------

def test_nothing_is_claimed_before_open(program):
    program("""
import os
threads = len(os.listdir("/proc/self/task"))
worker = slip.Worker("cpu:0", memory_budget_bytes=1 << 20)
assert worker.state == "new" and worker.device == "cpu:0" and "new" in repr(worker) and worker.handle
assert slip.process_mode() == "unclaimed" and len(os.listdir("/proc/self/task")) == threads
refused(slip.InvalidStateError, worker.stats)
worker.close()
assert worker.state == "closed"
refused(slip.InvalidStateError, worker.open)
slip.Worker("mars:0")  # named only; asked for by open()
with slip.kernel.open():
    assert slip.process_mode() == "kernel"
""")


def test_states(program):
    program("""
worker = slip.Worker(single_thread=True)
assert worker.open() is worker and worker.open() is worker and worker.state == "ready" and slip.process_mode() == "program"
assert repr(worker) == "<slipstream.Worker on cpu:0, ready; programs 0, allocations 0 (0 bytes), runs 0>", repr(worker)
worker.close()
worker.close()
assert worker.state == "closed" and repr(worker) == "<slipstream.Worker on cpu:0, closed>"
for call in (worker.open, worker.__enter__, worker.stats, lambda: worker.empty(4), lambda: worker.tensor(ones()), lambda: worker.register(load("axpy"))):
    assert "closed" in refused(slip.InvalidStateError, call).lower()
with slip.Worker() as first, slip.Worker() as second:  # several, also on one device
    assert first.state == second.state == "ready" and first.handle != second.handle
assert first.state == "closed"
""")


def test_first_use_opens(program):
    program("""
for use in (lambda w: w.empty(1), lambda w: w.zeros(1), lambda w: w.tensor(ones()), lambda w: w.register(load("axpy"))):
    worker = slip.Worker()
    kept = use(worker)
    assert worker.state == "ready"
    worker.close()
""")


def test_failed_open_leaves_it_new(program):
    program("""
worker = slip.Worker("mars:0")
assert "mars" in refused(slip.NotFoundError, worker.open)
assert worker.state == "new" and slip.process_mode() == "unclaimed"
refused(slip.NotFoundError, worker.empty, 4)
worker.close()
far = slip.Worker("cpu:1000")
refused(slip.InvalidArgumentError, far.open)
assert far.state == "new"
""")


def test_options_are_checked(program):
    program("""
for option in ("scheduler_threads", "memory_budget_bytes", "workspace_budget_bytes", "max_callables", "stall_timeout_ms", "task_window"):
    for value in (-1, 1.5, "2", 1 << 70):
        try:
            slip.Worker(**{option: value})
            raise SystemExit("%s=%r was taken" % (option, value))
        except (slip.InvalidArgumentError, TypeError) as error:
            assert option in str(error) or isinstance(error, TypeError), error
assert "scheduler_threads" in refused(slip.InvalidArgumentError, slip.Worker, scheduler_threads=1)
assert "scheduler_threads" in refused(slip.InvalidArgumentError, slip.Worker, scheduler_threads=2, single_thread=True)
refused(slip.InvalidArgumentError, slip.Worker, "cpu:x")
with slip.Worker(scheduler_threads=2, task_window=16, heap_bytes=[1 << 20] * 4, dependency_pool=64, stall_timeout_ms=60000, max_callables=1, pin_workers=True) as worker:
    assert worker.stats().threads == 2
    worker.register(load("axpy")).close()
""")


def test_modes_exclude_each_other(program):
    program("""
context = slip.kernel.open()
worker = slip.Worker()
assert "kernel" in refused(slip.ModeConflictError, worker.open) and worker.state == "new"
refused(slip.ModeConflictError, worker.register, load("axpy"))
context.close()
assert slip.process_mode() == "kernel"  # for life
refused(slip.ModeConflictError, worker.open)
""")
    program("""
with slip.Worker() as worker:
    assert "program" in refused(slip.ModeConflictError, slip.kernel.open)
refused(slip.ModeConflictError, slip.kernel.open)
with slip.Worker() as worker:
    worker.register(load("axpy"))(ones(), ones(), 1.0)
""")


# --- calls -------------------------------------------------------------------------------------------------------------------------------

def test_call(program):
    program(WORKER + """
x, y = ones(), ones(4, 10)
assert axpy(x, y, 2.0) is y and y.tolist() == [12] * 4
assert axpy(x, a=2.0, y=y) is y and axpy(a=1, y=y, x=x) is y and y.tolist() == [15] * 4
assert str(axpy.signature) == "(in x: f32[N], inout y: f32[N], a: f32) -> (y)" and axpy.name == "axpy" and axpy.worker is worker
assert repr(axpy) == "<slipstream.Program axpy(in x: f32[N], inout y: f32[N], a: f32) -> (y), id %d on cpu:0>" % axpy.id
assert type(axpy).__call__(axpy, x, y, a=0.0) is y
# Every kind of tensor.
import array, ctypes
buffer, raw = array.array("f", [1, 2]), (ctypes.c_float * 2)(1, 2)
assert axpy(buffer, buffer, 1.0) is buffer and buffer.tolist() == [2, 4]
assert list(axpy(buffer, raw, 1.0)) == [3, 6]
mine = slip.empty(2).copy_from(buffer)
assert axpy(memoryview(buffer), mine, 1.0) is mine and mine.numpy().tolist() == [4, 8]
stats = worker.stats()
assert (stats.runs, stats.completed, stats.failed, stats.callables) == (7, 7, 0, 2) and stats.uploaded_bytes == 0
worker.close()
assert y.tolist() == [15] * 4
""")


def test_dtypes_without_a_buffer_format(program, artifacts):
    artifacts("program", "copy", "bf16", 1)
    program("""
import ml_dtypes
copy = slip.Worker().register(load("copy_bf16_1"))
x = np.array([1, 2, 3], ml_dtypes.bfloat16)
y = copy(x)
assert y.dtype == "bf16" and y.shape == (3,) and y.numpy().dtype == x.dtype and (y.numpy() == x).all()
z = np.zeros_like(x)
assert copy(y, z) is z and (z == x).all() and slip.Tensor(y).dtype == "bf16"
try:
    memoryview(y)
    raise SystemExit("not refused")
except BufferError as error:
    assert "bf16" in str(error)
""")


def test_outputs_left_out(program):
    program(WORKER + """
x = ones()
for y in (scale(x, a=3.0), scale(x, None, 3.0), scale(x, y=None, a=3.0), scale(a=3.0, x=x)):
    assert type(y) is slip.WorkerTensor and y.worker is worker and y.shape == (4,) and y.numpy().tolist() == [3] * 4
z = scale(y, a=2.0)  # in place
assert z.numpy().tolist() == [6] * 4 and scale(z, y, 0.5) is y and y.numpy().tolist() == [3] * 4
assert scale(np.zeros(0, np.float32), a=1.0).shape == (0,)
parts = worker.register(load("parts"))
first, twice, again = parts(x)
assert first is again and first.shape == (1,) and twice.numpy().tolist() == [2] * 4
mine = np.zeros(4, np.float32)
first, twice, again = parts(x, mine)  # some of them
assert twice is mine and mine.tolist() == [2] * 4 and first.numpy().tolist() == [1]
run = parts.submit(x)
run.wait()
hidden = run.output("hidden")
assert hidden is run.output("hidden") and hidden.numpy().tolist() == [-1] * 4 and run.result()[1].numpy().tolist() == [2] * 4
assert run.output("twice") is run.result()[1]
refused(slip.InvalidArgumentError, run.output, "nothing")
refused(slip.InvalidArgumentError, run.output, 3)
assert "'x'" in refused(slip.InvalidStateError, run.output, "x")
lazy = worker.register(load("lazy"))
for n in (1, 5, 1000):
    assert not lazy(ones(n, 7), zero_outputs=True).numpy().any()
    assert not lazy.submit(ones(n, 7), zero_outputs=1).result().numpy().any()
nameless = worker.register(load("nameless"))
message = refused(slip.InvalidArgumentError, nameless, x)
assert "'y'" in message and "'M'" in message, message
message = refused(slip.InvalidArgumentError, nameless, x, x)
assert "'z'" in message, message
options = worker.register(load("options"))
assert options(x, 0) is x and options.submit(x, zero_outputs=1).result() is x and options(block=x, zero_outputs=3) is x
assert worker.stats().failed == 0
""", names=("axpy", "scale", "parts", "lazy", "nameless", "options"))


def test_refusals(program):
    program(WORKER + """
x, y = ones(), ones()
assert "'a'" in refused(slip.ArgumentTypeError, axpy, x, y) and "'y'" in refused(TypeError, axpy, x, a=1.0)
assert "outputs" in refused(slip.ArgumentTypeError, axpy, x, a=1.0)
assert "3" in refused(slip.ArgumentTypeError, axpy, x, y, 1.0, 2.0)
assert "'b'" in refused(slip.ArgumentTypeError, axpy, x, y, b=1.0)
assert "'block'" in refused(slip.ArgumentTypeError, axpy, x, y, 1.0, block=False)
assert "twice" in refused(slip.ArgumentTypeError, axpy, x, y, 1.0, x=x)
assert "names no parameter" in refused(slip.ArgumentTypeError, lambda: axpy.__call__(x, y, **{1: 2}))
assert "'x'" in refused(slip.ArgumentTypeError, axpy, None, y, 1.0) and "'x'" in refused(slip.ArgumentTypeError, axpy, [1.0], y, 1.0)
assert "'x'" in refused(slip.InvalidArgumentError, axpy, x.astype(np.float64), y, 1.0)
assert "'y'" in refused(slip.InvalidArgumentError, axpy, x, ones(5), 1.0)
assert "'x'" in refused(slip.InvalidArgumentError, axpy, ones(8)[::2], y, 1.0)
y.flags.writeable = False
assert "read-only" in refused(slip.InvalidArgumentError, axpy, x, y, 1.0)
z = ones(5)
assert "'y'" in refused(slip.InvalidArgumentError, axpy, z[:4], z[1:], 1.0)
refused(slip.ArgumentTypeError, axpy, x, ones(), "1")
refused(slip.ArgumentTypeError, axpy, x, ones(), True)
refused(slip.ArgumentTypeError, axpy, x, ones(), x)
class Bad:
    def __bool__(self):
        raise KeyError("truth")
try:
    scale(x, a=1.0, zero_outputs=Bad())
    raise SystemExit("not refused")
except KeyError:
    pass
refused(slip.ArgumentTypeError, worker.register, folder)
assert "contract" in refused(slip.IncompatibleError, worker.register, slip.load(folder + "/axpy.slipc"))
assert x.tolist() == [1] * 4 and worker.stats().runs == 0
for cls in (slip.Program, slip.Run, slip.WorkerTensor):
    try:
        cls()
        raise SystemExit("made")
    except TypeError:
        pass
""")


def test_content_is_registered_once(program):
    program("""
worker = slip.Worker()
first, second, other = worker.register(load("axpy")), worker.register(load("axpy")), worker.register(load("scale"))
assert first.id == second.id != other.id and worker.stats().callables == 2
first.close()
first.close()
x, y = ones(), ones()
assert "closed" in refused(slip.NotPreparedError, first, x, y, 1.0) and "closed" in repr(first)
refused(slip.NotPreparedError, first.submit, x, y, 1.0)
with second:
    second(x, y, 1.0)
assert y.tolist() == [2] * 4 and worker.stats().callables == 1
del other
assert worker.stats().callables == 0
again = worker.register(load("axpy"))
assert again.id not in (first.id,)
worker.close()
refused(slip.InvalidStateError, again, x, y, 1.0)
again.close()
""")


# --- memory ------------------------------------------------------------------------------------------------------------------------------

def test_memory(program):
    program("""
worker = slip.Worker()
t = worker.zeros((2, 3))
assert (t.shape, t.strides, t.dtype, t.device, t.ndim, t.nbytes, t.itemsize, len(t)) == ((2, 3), (3, 1), "f32", "cpu:0", 2, 24, 4, 2)
assert t.contiguous and not t.freed and t.worker is worker and t.data_ptr % 64 == 0 and not t.numpy().any()
assert repr(t) == "<slipstream.WorkerTensor f32[2,3] strides [3,1] at cpu:0>", repr(t)
a = np.arange(6, dtype=np.float32).reshape(2, 3)
assert t.copy_from(a) is t and (t.numpy() == a).all() and t.numpy() is not t.numpy()
b = np.zeros_like(a)
assert t.copy_to(b) is b and (a == b).all()
host = t.to_host()
assert type(host) is slip.Tensor and (host.numpy() == a).all()
for source in (a, host, t, memoryview(a)):
    u = worker.tensor(source)
    assert u.data_ptr != t.data_ptr and (u.numpy() == a).all()
v = worker.empty((2, 3)).copy_from(t)
assert (v.copy_to(worker.empty((2, 3))).numpy() == a).all()
for dtype in ("bool", "i8", "i64", "u16", "f16", "f64"):
    kind = {"b": "?", "i": "i", "u": "u", "f": "f"}[dtype[0]] + (str(int(dtype[1:]) // 8) if dtype != "bool" else "")
    c = np.arange(5).astype(kind)
    u = worker.tensor(c)
    assert u.dtype == dtype and u.numpy().dtype == c.dtype and (u.numpy() == c).all()
assert worker.empty(()).shape == () and worker.tensor(np.float32(3).reshape(())).numpy() == 3
none = worker.empty((0, 3))
assert none.nbytes == 0 and none.numpy().shape == (0, 3) and none.copy_from(np.zeros((0, 3), np.float32)) is none
none.free()
assert none.freed
# Views.
row = t.slice(0, 1, 1).reshape(3)
assert row.numpy().tolist() == [3, 4, 5] and row.data_ptr == t.data_ptr + 12 and t.reshape(-1).shape == (6,) and t.reshape(3, 2).shape == (3, 2)
row.copy_from(ones(3, 9))
assert t.numpy().tolist() == [[0, 1, 2], [9, 9, 9]]
column = t.slice(1, 0, 1)
assert not column.contiguous
refused(slip.InvalidArgumentError, column.numpy)
refused(slip.InvalidArgumentError, t.slice, 2, 0, 1)
refused(slip.InvalidArgumentError, t.slice, 0, 1, 2)
refused(slip.InvalidArgumentError, t.slice(1, 0, 2).reshape, 4)
# Refusals.
for wrong in (np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float64), np.zeros((3, 2), np.float32).T, np.zeros(6, np.float32), worker.empty(6)):
    refused(slip.InvalidArgumentError, t.copy_from, wrong)
    refused(slip.InvalidArgumentError, t.copy_to, wrong)
refused(slip.ArgumentTypeError, t.copy_from, [1.0])
refused(slip.ArgumentTypeError, worker.tensor, 3)
refused(slip.InvalidArgumentError, worker.tensor, np.zeros((4, 4), np.float32)[:, ::2])
b.flags.writeable = False
assert "read-only" in refused(slip.InvalidArgumentError, t.copy_to, b)
refused(slip.InvalidArgumentError, worker.empty, (1,) * 6)
refused(slip.InvalidArgumentError, worker.empty, -1)
refused(slip.InvalidArgumentError, worker.empty, 4, "f33")
refused(slip.SlipError, worker.empty, (1 << 62, 1 << 62))
other = slip.Worker().empty((2, 3))
refused(slip.InvalidArgumentError, t.copy_from, other)
refused(slip.InvalidArgumentError, worker.tensor, other)
try:
    len(worker.empty(()))
    raise SystemExit("not refused")
except TypeError:
    pass
""")


def test_budget(program):
    program("""
worker = slip.Worker(memory_budget_bytes=1 << 20)
scale = worker.register(load("scale"))
a = worker.empty((1 << 18) - 256)
assert "memory_budget_bytes" in refused(slip.OutOfMemoryError, worker.empty, 1024)
try:
    worker.zeros(1024)
except MemoryError:
    pass
refused(slip.OutOfMemoryError, scale, ones(1024), a=1.0)
a.free()
assert worker.stats().memory_bytes == 0 and worker.stats().memory_peak_bytes <= 1 << 20
assert scale(ones(1024), a=1.0).numpy().all()
gc.collect()
assert worker.stats().memory_bytes == 0 and worker.stats().allocations == 0  # forgotten results are freed
""")


def test_free(program):
    program(WORKER + """
t = worker.tensor(ones())
view = t.slice(0, 1, 2)
view.free()  # the whole
t.free()
assert t.freed and view.freed and "freed" in repr(t) and "freed" in repr(view)
for call in (t.numpy, t.to_host, view.numpy, lambda: t.copy_from(ones()), lambda: t.copy_to(ones()), lambda: worker.tensor(t), lambda: memoryview(t), t.__dlpack__,
             lambda: slip.Tensor(t)):
    assert "freed" in refused(slip.InvalidArgumentError, call)
for bad in (t, view):
    message = refused(slip.InvalidArgumentError, axpy, ones(4 if bad is t else 2), bad, 1.0)
    assert "'y'" in message and "freed" in message
other = slip.Worker().tensor(ones())
message = refused(slip.InvalidArgumentError, axpy, other, ones(), 1.0)
assert "'x'" in message and "worker" in message
a, b = worker.tensor(ones()), worker.tensor(ones())
view = b.slice(0, 0, 2)
del b
assert view.numpy().tolist() == [1, 1]  # a view keeps the memory
worker.close()
assert a.freed and "closed" in repr(a)
for call in (a.numpy, lambda: a.copy_from(ones()), lambda: memoryview(a), lambda: axpy(a, ones(), 1.0)):
    refused(slip.InvalidStateError, call)
a.free()
del a, view
""")


def test_memory_goes_out(program):
    program("""
worker = slip.Worker()
t = worker.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
for out in (lambda: np.from_dlpack(t), lambda: np.asarray(memoryview(t)), lambda: slip.Tensor(t).numpy(), lambda: np.asarray(t), lambda: slip.Tensor(slip.Tensor(t)).numpy(),
            lambda: np.from_dlpack(t.reshape(2, 3)), lambda: slip.Tensor(t).slice(0, 0, 2).numpy()):
    array = out()
    assert array.ctypes.data == t.data_ptr and array.shape == (2, 3)
    array[0, 0] += 1
    assert "lent out" in refused(slip.BusyError, t.free) and not t.freed
    refused(slip.BusyError, worker.close)
    assert worker.state == "ready"
    del array
assert t.numpy()[0, 0] == 7 and t.__dlpack_device__() == (1, 0)
column = np.asarray(t.slice(1, 1, 1))
assert column.tolist() == [[1], [4]]
copied = np.from_dlpack(t, copy=True) if tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1) else None
del column
capsule = t.__dlpack__(max_version=(1, 0))
refused(slip.BusyError, worker.close)
del capsule
kept = t.numpy()
twin = np.from_dlpack(t)
worker_handle = worker.handle
del t
refused(slip.BusyError, worker.close)
assert twin[1, 2] == 5
del twin
worker.close()
assert kept[1, 2] == 5
""")


# --- runs --------------------------------------------------------------------------------------------------------------------------------

def test_submit(program):
    program(WORKER + """
x, y = ones(), ones()
run = axpy.submit(x, y, 2.0)
assert type(run) is slip.Run and run.program is axpy
assert run.result() is y and run.result(timeout=0) is y and y.tolist() == [3] * 4 and run.done() and run.exception() is None and run.wait() is None
assert repr(run) == "<slipstream.Run of axpy, done>"
runs = [axpy.submit(x, y, float(i)) for i in range(20)]
assert runs[-1].result() is y and all(r.done() for r in runs) and y.tolist() == [193] * 4
out = scale.submit(x, a=5.0)
tensor = out.result()
assert tensor is out.result() and tensor.numpy().tolist() == [5] * 4
# A chain in worker memory, nothing copied between.
run = scale.submit(tensor, a=2.0)
assert scale(run.result(), a=0.5).numpy().tolist() == [5] * 4
for wrong in (-1, float("nan"), "1"):
    try:
        run.wait(timeout=wrong)
        raise SystemExit("not refused")
    except (slip.InvalidArgumentError, TypeError):
        pass
# Dropping a run changes nothing.
axpy.submit(x, y, 1.0)
late = scale.submit(x, a=1.0)
worker.close()
assert y.tolist() == [194] * 4 and late.done() and late.exception() is None
refused(slip.InvalidStateError, late.result)
assert runs[0].result() is y
""")


HOLD = """
worker = slip.Worker()
hold, axpy, scale = (worker.register(load(n)) for n in ("hold", "axpy", "scale"))
flag, seen = np.zeros(1, np.int32), np.zeros(1, np.int32)
"""


def test_waiting(program):
    program(HOLD + """
first = hold.submit(flag, seen)
y = ones()
second = axpy.submit(ones(), y, 1.0)
assert not first.done() and not second.done() and repr(first) == "<slipstream.Run of hold, not done>"
assert "0.01" in refused(slip.TimedOutError, first.wait, 0.01)
refused(slip.TimedOutError, first.result, timeout=0)
refused(slip.TimedOutError, second.exception, 0.001)
refused(slip.BusyError, axpy.submit, ones(), y, 1.0, block=False)  # two are not done
refused(slip.NotReadyError, second.output, "y")
third = []
thread = threading.Thread(target=lambda: third.append(axpy.submit(ones(), y, 10.0)))
thread.start()
answers = []
threads = [threading.Thread(target=lambda: answers.append(second.result())) for _ in range(4)]
for t in threads:
    t.start()
flag[0] = 1
for t in threads + [thread]:
    t.join()
assert first.result() is seen and seen[0] == 1 and len(answers) == 4 and all(a is y for a in answers)
third[0].wait()
assert y.tolist() == [12] * 4
worker.close()
""", names=("axpy", "scale", "hold"))


def test_objects_are_kept(program):
    program(HOLD + """
import sys
class Array(np.ndarray):
    gone = 0
    def __del__(self):
        Array.gone += 1
x, out = ones().view(Array), bytearray(16)
y = memoryview(out).cast("f")
first = hold.submit(flag, seen)
run = axpy.submit(x, y, 3.0)
del x, y
gc.collect()
assert Array.gone == 0
try:
    out.extend(b"1234")
    raise SystemExit("not exported")
except BufferError:
    pass
del run
gc.collect()
assert Array.gone == 0
flag[0] = 1
first.wait()
while worker.stats().completed < 2:
    pass
worker.stats()  # any later call gives it back
gc.collect()
assert Array.gone == 1
out.extend(b"1234")
assert np.frombuffer(out, np.float32)[:4].tolist() == [3] * 4
# Memory of the worker that is freed under a run.
flag[0], a, b = 0, worker.tensor(ones()), worker.tensor(ones())
first, second = hold.submit(flag, seen), axpy.submit(a, b, 2.0)
a.free()
del b
flag[0] = 1
assert second.result().numpy().tolist() == [3] * 4
""", names=("axpy", "scale", "hold"))


def test_failure(program):
    program("""
worker = slip.Worker()
fail, axpy = worker.register(load("fail")), worker.register(load("axpy"))
y = ones()
error = refused(slip.SlipError, fail, y, 1234)
assert "as wanted" in error, error
bad, good = fail.submit(y, 1234), fail.submit(y, 0)
caught = []
def ask():
    try:
        bad.result()
    except slip.SlipError as error:
        caught.append(error)
threads = [threading.Thread(target=ask) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert len(caught) == 4 and len({id(e) for e in caught}) == 4 and len({(type(e), e.code, str(e)) for e in caught}) == 1
for call in (bad.wait, bad.result, lambda: bad.output("y")):
    assert "as wanted" in refused(slip.SlipError, call)
error = bad.exception()
assert isinstance(error, slip.SlipError) and error.code == caught[0].code and error.name and "done" not in repr(bad)
assert good.result() is y and good.exception() is None  # alone
axpy(ones(), y, 1.0)
stats = worker.stats()
assert (stats.runs, stats.completed, stats.failed) == (4, 4, 2)
""", names=("fail", "axpy"))


def test_signals_reach_wait(program):
    program(HOLD + """
import os, signal
run = hold.submit(flag, seen)
try:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    run.wait()
    raise SystemExit("not interrupted")
except KeyboardInterrupt:
    pass
assert not run.done()
flag[0] = 1
run.wait()
""", names=("axpy", "scale", "hold"))


def test_threads(program):
    program(WORKER + """
failures = []
def work(k):
    try:
        x, mine = ones(64, k), worker.tensor(ones(64))
        for i in range(25):
            y = scale(x, a=2.0)
            run = axpy.submit(y, mine, 1.0)
            assert (y.numpy() == 2 * k).all()
            assert run.result() is mine and (mine.numpy() == 1 + 2 * k * (i + 1)).all()
            with worker.register(load("axpy")) as same:
                assert same.id == axpy.id
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not failures, failures
assert worker.stats().failed == 0 and worker.stats().runs == 200
worker.close()
""")


def test_close_while_others_call(program):
    program(WORKER + """
done = []
def work():
    y = ones(64)
    while True:
        try:
            axpy(ones(64), y, 1.0)
            worker.tensor(y).numpy()
            scale.submit(y, a=1.0)
        except slip.InvalidStateError:
            done.append(1)
            return
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads:
    t.start()
while worker.stats().runs < 30:
    pass
worker.close()
for t in threads:
    t.join()
assert len(done) == 3 and worker.state == "closed"
""")


def test_forgotten_worker_is_closed(program):
    program("""
import os
def tasks():
    return len(os.listdir("/proc/self/task"))
before = tasks()
for _ in range(3):
    worker = slip.Worker(scheduler_threads=2)
    t, axpy = worker.tensor(ones()), worker.register(load("axpy"))
    run = axpy.submit(t, worker.tensor(ones()), 1.0)
    node = type("Node", (), {})()
    node.run, node.me = run, node
    del worker, t, axpy, run, node
    gc.collect()
while tasks() > before:  # a thread that was joined may be listed for a moment
    pass
""")


# --- processes ---------------------------------------------------------------------------------------------------------------------------

def test_forked_child_is_refused(program):
    program(WORKER + """
t = worker.tensor(ones())
run = axpy.submit(t, worker.tensor(ones()), 1.0)
run.wait()
def pipe(code):
    pid = os.fork()
    if not pid:
        status = 1
        try:
            code()
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
def child():
    for call in (worker.open, worker.close, worker.stats, lambda: worker.empty(4), lambda: worker.tensor(ones()), lambda: worker.register(load("axpy")), t.numpy, t.free,
                 lambda: memoryview(t), t.__dlpack__, lambda: t.copy_from(ones()), lambda: axpy(ones(), ones(), 1.0), lambda: axpy.submit(ones(), ones(), 1.0),
                 axpy.close, run.done, run.wait, run.result, run.exception, lambda: run.output("y")):
        refused(slip.ForkedError, call)
    assert "another process" in repr(worker)
    with slip.Worker() as mine:  # the child's own
        assert mine.register(load("scale"))(ones(), a=2.0).numpy().tolist() == [2] * 4
pipe(child)
pid = os.fork()
if not pid:
    sys.exit(0)  # the whole end, with everything inherited
assert os.waitpid(pid, 0)[1] == 0
assert axpy(t, ones(), 1.0).tolist() == [2] * 4
worker.close()
""", "-W", "ignore::DeprecationWarning")


def test_kernel_mode_refuses_the_memory(program):
    """By name, on every path: only the child of a fork can try, since a process is in one mode."""
    program(WORKER + """
t = worker.tensor(ones())
face = slip.Tensor(t)
pid = os.fork()
if not pid:
    status = 1
    try:
        with slip.kernel.open() as context, slip.Stream() as stream:
            f = context.prepare(slip.load(folder + "/axpy.slipc"))
            for bad in (t, t.slice(0, 0, 4), face, face.slice(0, 0, 4)):
                with context.graph() as graph:
                    node = graph.add(f, ones(), ones(), 1.0)
                    for call in (f, f.check, lambda *a: f.launch(slip.INLINE, *a), lambda *a: f.launch(stream, *a), lambda *a: f(*a, stream=stream),
                                 lambda *a: graph.add(f, *a), lambda *a: graph.bind(node, *a)):
                        for arguments in ((bad, ones(), 1.0), (ones(), bad, 1.0)):
                            message = refused(slip.InvalidArgumentError, call, *arguments)
                            assert "worker" in message and ("'x'" in message or "'y'" in message), message
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)
assert os.waitpid(pid, 0)[1] == 0
""", "-W", "ignore::DeprecationWarning")


def test_exit_with_everything_open(program):
    program(WORKER + """
t = worker.tensor(ones())
run = axpy.submit(t, ones(), 1.0)
second = slip.Worker()
kept = second.empty(5)
node = type("Node", (), {})()
node.me, node.all = node, (worker, axpy, run, t)
sys.node = node
""")


IN_FLIGHT = """
import atexit
run = hold.submit(flag, seen)
axpy.submit(ones(), ones(), 1.0)
threading.Timer(0.05, flag.__setitem__, [0, 1]).start()
"""


def test_exit_with_a_run_in_flight(program):
    for end in ("", "del worker, hold, axpy, scale, run\n", "atexit.register(worker.close)\n"):
        program(HOLD + IN_FLIGHT + end, names=("axpy", "scale", "hold"))


def test_exit_with_memory_lent_out(program):
    """It stays for whoever looks at it; the library says that the worker was not closed. The runs are waited for."""
    for end in ("", "del worker\n", "sys.me = [sys, array]\n"):
        done = program(HOLD + IN_FLIGHT + "array = np.from_dlpack(worker.tensor(ones()))\n" + end, names=("axpy", "scale", "hold"), check=False)
        lines = done.stderr.splitlines()
        assert done.returncode == 0 and done.stdout == "end\n" and len(lines) <= 1 and all("was not closed" in line for line in lines), done.stdout + done.stderr


def test_call_from_an_exit_handler(program):
    done = program("""
import atexit
def last():
    for call in (lambda: axpy(ones(), ones(), 1.0), t.numpy, lambda: worker.empty(1)):
        refused(slip.InvalidStateError, call)
    worker.close(), axpy.close(), t.free()
    print("refused")
atexit.register(last)
""" + WORKER + "t = worker.tensor(ones())\n", check=False)
    assert done.stdout == "end\nrefused\n" and done.stderr == "", done.stdout + done.stderr


def test_exit_while_daemon_threads_call(program):
    done = program(WORKER + """
def work():
    a, b = ones(1 << 16), ones(1 << 16)
    while True:
        try:
            axpy.submit(scale(a, a=1.0), b, 1.0)
        except slip.SlipError:
            return
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
while worker.stats().runs < 10:
    pass
""", check=False)
    assert "Fatal" not in done.stderr and "Segmentation" not in done.stderr, done.stderr


# --- the simulator -----------------------------------------------------------------------------------------------------------------------

SIM = """
from slipstream import sim
sim.reset(delay_ns=0)
worker = slip.Worker("sim:0")
axpy, scale = worker.register(load('axpy')), worker.register(load('scale'))
"""
SIM_END = """
worker.close()
assert not sim.violations(), sim.violations()
sim.reset()
"""


def test_sim(program):
    program(SIM + """
x, y = ones(), ones()
assert worker.device == "sim:0" and axpy(x, y, 2.0) is y and y.tolist() == [3] * 4  # by way of the device
stats = worker.stats()
assert stats.uploaded_bytes == 32 and stats.downloaded_bytes == 16
t = scale(x, a=4.0)
assert t.device == "sim:0" and "sim:0" in repr(t) and t.numpy().tolist() == [4] * 4 and t.to_host().device == "cpu:0"
u = worker.zeros(4)
assert axpy(t, u, 0.5) is u and u.numpy().tolist() == [2] * 4 and u.slice(0, 1, 2).numpy().tolist() == [2, 2]
assert worker.tensor(u).copy_from(t).numpy().tolist() == [4] * 4
assert u.copy_to(np.zeros(4, np.float32)).tolist() == [2] * 4
runs = [axpy.submit(x, y, 1.0) for _ in range(5)]
assert runs[-1].result() is y and y.tolist() == [8] * 4
assert scale.submit(y, a=1.0, zero_outputs=True).result().numpy().tolist() == [8] * 4
for call in (lambda: memoryview(t), t.__dlpack__, t.__dlpack_device__, lambda: np.from_dlpack(t)):
    try:
        call()
        raise SystemExit("not refused")
    except BufferError as error:
        assert "numpy()" in str(error)
refused(slip.UnsupportedError, slip.Tensor, t)
refused(slip.UnsupportedError, slip.empty(4).copy_from, t)
message = refused(slip.InvalidArgumentError, axpy, slip.empty(4, device="sim:0"), y, 1.0)
assert "'x'" in message, message
t.free()
del t, u
""" + SIM_END)


def test_sim_failures(program):
    program(SIM + """
t = worker.tensor(ones())
sim.fail_call("memory_allocate", 1)
refused(slip.SlipError, worker.empty, 4)
sim.fail_clear()
assert t.numpy().tolist() == [1] * 4
# A close that fails is repeated, and goes on where it stopped.
sim.fail_call("memory_free", 1)
refused(slip.SlipError, worker.close)
assert worker.state == "closing"
refused(slip.InvalidStateError, worker.empty, 4)
refused(slip.InvalidStateError, t.numpy)
sim.fail_clear()
""" + SIM_END)


def test_sim_device_lost(program):
    program(SIM + """
x = worker.tensor(ones())
sim.break_device(0)
lost = (slip.DeviceError, slip.PoisonedError)
for call in (lambda: axpy(x, ones(), 1.0), lambda: scale(ones(), a=1.0), lambda: worker.tensor(ones()), x.numpy):
    refused(lost, call)
try:
    worker.close()
except slip.DeviceError as error:
    assert error.platform_code, error
assert worker.state in ("closing", "closed")
refused(slip.InvalidStateError, worker.open)
print("end")
sys.stdout.flush()
os._exit(0)  # the device stays lost
""")
