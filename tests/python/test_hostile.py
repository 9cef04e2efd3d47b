# SPDX-License-Identifier: Apache-2.0
"""Objects that run other code in the middle of a call, and threads that pull away what others are in."""
import ctypes
import gc
import sys
import threading
import time

import numpy as np
import pytest
import slipstream as slip
from build_foreign import build


class Index:
    """A number that does something when it is read."""

    def __init__(self, action, value=1):
        self.action, self.value = action, value

    def __index__(self):
        self.action()
        return self.value


class Borrowed:
    """A stream of another library, which does something when it is asked for."""

    def __init__(self, action, stream):
        self.action, self.stream = action, stream

    def __cuda_stream__(self):
        self.action()
        return 0, self.stream.handle


class Array(np.ndarray):
    pass


def ones(n=4):
    return np.ones(n, np.float32)


def zeros(n=4):
    return np.zeros(n, np.float32)


def in_a_call(call):
    """Runs call in a thread and returns the thread when it is inside, without the interpreter's lock."""
    began = []

    def work():
        began.append(True)
        call()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # the thread keeps the lock until the call lets it go
    try:
        thread = threading.Thread(target=work)
        thread.start()
        while not began:
            time.sleep(0.001)
    finally:
        sys.setswitchinterval(interval)
    return thread


# --- other code in the middle of a call --------------------------------------------------------------------------------------------------

def test_the_stream_is_closed_while_arguments_are_read(prepare):
    f = prepare("axpy")
    stream = slip.Stream()
    with pytest.raises(slip.InvalidStateError, match="stream is closed"):
        f(ones(), zeros(), Index(stream.close), stream=stream)


def test_the_context_is_closed_while_arguments_are_read(artifacts):
    context = slip.kernel.open()
    f = context.prepare(artifacts("axpy"))
    y = zeros()
    for call in (lambda: f(ones(), y, Index(context.close)), lambda: f(ones(), y, 1.0)):
        with pytest.raises(slip.InvalidStateError, match="context of cpu:0 is closed"):
            call()
    assert not y.any()


def test_the_graph_is_closed_while_arguments_are_read(context, prepare):
    """The callable's last reference is the graph's."""
    for method in ("bind", "add"):
        graph = context.graph()
        f = prepare("axpy")
        first = graph.add(f, ones(), zeros(), 1.0)
        if method == "bind":
            del f

        def close():
            graph.close()
            gc.collect()
        with pytest.raises(slip.InvalidStateError, match="graph is closed"):
            getattr(graph, method)(first if method == "bind" else f, ones(), zeros(), Index(close))


def test_asking_for_the_stream_closes_what_is_used(context, prepare):
    f = prepare("axpy")
    with slip.Stream() as stream:
        for ask in (lambda graph, lent: graph(lent), lambda graph, lent: graph.launch(stream=lent)):
            graph = context.graph()
            graph.add(f, ones(), zeros(), 1.0)
            with pytest.raises(slip.InvalidStateError, match="graph is closed"):
                ask(graph, Borrowed(graph.close, stream))
        event = slip.Event()
        with pytest.raises(slip.InvalidStateError, match="event is closed"):
            event.record(Borrowed(event.close, stream))


def test_a_graph_goes_while_its_context_ends_it(artifacts):
    """What the graph gives back drops the graph."""
    class Last:
        def __del__(self):
            holder.clear()
            gc.collect()
    context = slip.kernel.open()
    f = context.prepare(artifacts("axpy"))
    holder = {"graph": context.graph()}
    tensor = ones().view(Array)
    tensor.last = Last()
    holder["graph"].add(f, tensor, zeros(), 1.0)
    holder["graph"].bind(0, ones(), zeros(), 1.0)
    holder["graph"].add(f, tensor, zeros(), 1.0)
    del tensor
    context.close()
    assert not holder


def test_views_are_read_again_after_other_code(prepare, tmp_path):
    """A view of an exchange table is good only until other code runs."""
    f = prepare("axpy")
    foreign = build(tmp_path)
    x, y = foreign.Plain(4), foreign.Plain(4)

    def swap():
        for vector in (x, y):
            vector.__init__(5000)
        np.frombuffer(x, np.float32)[:] = 1
    f(x, y, Index(swap, 2))
    assert np.frombuffer(y, np.float32).tolist() == [2.0] * 5000


def test_the_table_of_types_changes_while_a_type_is_learnt():
    """What leaves a place of the table runs code that fills it again."""
    place = lambda kind: (id(kind) >> 4 ^ id(kind) >> 10) % 64  # noqa: E731
    capsules = lambda self, **named: zeros().__dlpack__(**named)  # noqa: E731

    class Gone:
        def __del__(self):
            seen.append(slip.Tensor(intruder()).nbytes)
    seen = []
    first = type("First", (), {"__dlpack__": capsules, "is_neg": Gone()})
    kept, intruder, learnt = [], None, None
    while learnt is None:
        kept.append(type("Other", () if intruder is None else (bytearray,), {"__dlpack__": capsules} if intruder is None else {}))
        if place(kept[-1]) == place(first):
            intruder, learnt = (kept[-1], None) if intruder is None else (intruder, kept[-1])
    with pytest.raises(slip.InvalidArgumentError):  # it is called, and refuses; first is in the table
        slip.Tensor(first())
    first.is_neg = None
    assert slip.Tensor(learnt(b"12")).dtype == "u8" and seen == [16]


def test_a_name_that_is_no_string(prepare):
    f = prepare("axpy")
    with pytest.raises(TypeError, match="1 names no parameter"):
        f.__call__(ones(), zeros(), **{1: 2})


# --- threads -----------------------------------------------------------------------------------------------------------------------------

def test_bind_while_a_thread_replays(context, prepare):
    """An inline replay that has begun keeps its tensors."""
    f, wait = prepare("axpy"), prepare("wait")
    x, y, flag, done, other = ones(), zeros(), np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    count = sys.getrefcount(done)
    with context.graph() as graph:
        graph.add(f, x, y, 1.0)
        graph.add(wait, flag, done)
        thread = threading.Thread(target=graph)
        thread.start()
        while not y[0]:
            time.sleep(0.001)
        graph.bind(1, flag, other)
        assert sys.getrefcount(done) > count
        flag[0] = 1
        thread.join()
        graph()
        assert done[0] == 1 and other[0] == 1 and sys.getrefcount(done) == count


def test_threads_bind_one_node(context, prepare):
    """The graph keeps the tensors of the binding that replays use."""
    f = prepare("axpy")
    x = ones()
    ys = [zeros() for _ in range(4)]
    counts = [sys.getrefcount(y) for y in ys]
    with context.graph() as graph:
        graph.add(f, x, ys[0], 0.0)

        def work(y):
            for _ in range(50):
                graph.bind(0, x, y, 1.0)
        threads = [threading.Thread(target=work, args=(y,)) for y in ys]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        del thread, threads
        graph()
        held = [sys.getrefcount(y) for y in ys]
        assert [bool(y.any()) for y in ys] == [after > before for after, before in zip(held, counts)]


def test_an_event_is_closed_while_a_thread_waits(prepare):
    wait = prepare("wait")
    flag, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
    with slip.Stream() as stream, slip.Event() as event:
        wait(flag, done, stream=stream)
        event.record(stream)
        thread = in_a_call(event.synchronize)
        with pytest.raises(slip.BusyError, match="event"):
            event.close()
        flag[0] = 1
        thread.join()


def test_replays_outlive_their_share(context, prepare, artifacts):
    wait = prepare("wait")
    flag, done, x, y = np.zeros(1, np.int32), np.zeros(1, np.int32), ones(), zeros()
    count = sys.getrefcount(x)
    with slip.Stream() as stream:
        wait(flag, done, stream=stream)
        with slip.kernel.open() as share:
            graph = share.graph()
            graph.add(share.prepare(artifacts("axpy")), x, y, 1.0)
            graph(stream)
        del graph, share
        assert sys.getrefcount(x) > count
        flag[0] = 1
        stream.synchronize()
    context.drain()
    assert y[0] == 1 and sys.getrefcount(x) == count


# --- wild numbers ------------------------------------------------------------------------------------------------------------------------

def test_axes_that_32_bits_do_not_hold():
    tensor = slip.empty((3, 4))
    for axis in (1 << 32, -1, -(1 << 32), 1 << 62, 2):
        for call in (lambda: tensor.transpose(axis, 1), lambda: tensor.transpose(1, axis), lambda: tensor.slice(axis, 0, 1)):
            with pytest.raises(slip.InvalidArgumentError):
                call()


def test_buffers_that_must_be_contiguous():
    get, release, view = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release, ctypes.create_string_buffer(256)
    get.argtypes, release.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], [ctypes.c_void_p]
    whole = slip.empty(10)
    for flags in (0x38, 0x58, 0x98):  # C, Fortran, any
        get(whole, view, flags)
        release(view)
        with pytest.raises(BufferError, match="contiguous"):
            get(whole.slice(0, 0, 5, 2), view, flags)


def test_paths_of_bytes(folder, artifacts, tmp_path, monkeypatch):
    artifacts("axpy")
    monkeypatch.chdir(tmp_path)
    assert slip.compile((folder + "/axpy.json").encode(), progress=False).path == "axpy.slipc"
