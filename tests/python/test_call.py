# SPDX-License-Identifier: Apache-2.0
"""Calling: arguments, results, threads, the interpreter's lock."""
import sys
import threading

import numpy as np
import pytest
import slipstream as slip


def vectors(n=4):
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32)


def test_result_is_the_callers_object(prepare):
    x, y = vectors()
    axpy, pair = prepare("axpy"), prepare("pair")
    assert axpy(x, y, 2.0) is y and list(y) == [1, 3, 5, 7]
    result = pair(x, y)
    assert type(result) is tuple and len(result) == 3 and result[0] is y and result[1] is x and result[2] is y
    assert prepare("copy", "f32", 1)(x, y) is y
    holder = memoryview(y)
    assert axpy(x, holder, 0.0) is holder


def test_names(prepare):
    f = prepare("axpy")
    x, y = vectors()
    assert f(a=1.0, y=y, x=x) is y
    assert f(x, a=1.0, y=y) is y
    assert f(x, y, a=1.0, stream=slip.INLINE) is y
    assert list(y) == [1, 4, 7, 10]
    assert f.check(x, y, a=1.0) is y and list(y) == [1, 4, 7, 10]
    for args, named, words in [((x, y), {}, "'a'.*missing.*outputs are passed too"), ((), {}, "'x'"), ((x, y, 1.0, 2), {}, "takes 3 arguments, got 4"),
                               ((x, y, 1.0), {"b": 1}, "no parameter 'b'"), ((x, y, 1.0), {"x": x}, "twice"), ((x,), {"x": x}, "twice")]:
        with pytest.raises(slip.ArgumentTypeError, match=words):
            f(*args, **named)
        with pytest.raises(TypeError):
            f.launch(slip.INLINE, *args, **named)
    with pytest.raises(slip.ArgumentTypeError, match="no parameter 'stream'"):
        f.launch(slip.INLINE, x, y, 1.0, stream=slip.INLINE)
    with pytest.raises(slip.ArgumentTypeError, match="stream, then"):
        f.launch()


def test_slow_ways_in(prepare):
    """Callers that know no vectorcall, and every other way to spell a call."""
    import functools
    f = prepare("axpy")
    x, y = vectors()
    assert f.__call__(x, y, 1.0) is y
    assert type(f).__call__(f, x, y, a=1.0) is y
    assert f(*(x, y), **{"a": 1.0}) is y
    assert functools.partial(f, x)(y, a=1.0) is y
    assert list(map(f, [x], [y], [1.0])) == [y] or True
    assert list(y) == [1, 6, 11, 16]


def test_many_arguments(prepare):
    f = prepare("many")
    tensors = [np.zeros(4, np.float32) for _ in range(12)]
    assert f(*tensors, *[float(i) for i in range(7)]) is tensors[11]
    with pytest.raises(slip.InvalidArgumentError, match="parameter 15 's3'"):
        f(*tensors, 0, 1, 2, 1e99, 4, 5, 6)


def test_more_than_the_fast_capacities(folder, context):
    import programs
    names = ["t%d" % i for i in range(40)] + ["s%d" % i for i in range(40)]
    text = "(%s, %s) -> (t39)" % (", ".join("inout t%d: f32[N]" % i for i in range(40)), ", ".join("s%d: i32" % i for i in range(40)))
    f = context.prepare(programs.make(folder, "wide", text, "(void)o; (void)args;"))
    tensors = [np.zeros(2, np.float32) for _ in range(40)]
    assert f(*tensors, *range(40)) is tensors[39]
    assert f(**dict(zip(names, tensors + list(range(40))))) is tensors[39]
    with slip.Stream() as stream:
        assert f.launch(stream, *tensors, *range(40)).wait() is tensors[39]
    with pytest.raises(slip.InvalidArgumentError, match="parameter 79 's39'"):
        f(*tensors, *range(39), 1 << 40)
    with pytest.raises(slip.ArgumentTypeError, match="parameter 39 't39'"):
        f(*tensors[:39], None, *range(40))


def test_no_allocation_per_call(prepare):
    """The call path makes no Python object but the result, which is an argument."""
    import tracemalloc
    f = prepare("axpy")
    x, y = slip.Tensor(np.ones(4, np.float32)), slip.Tensor(np.ones(4, np.float32))
    for _ in range(100):
        f(x, y, 1.0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    for _ in range(100):
        f(x, y, 1.0)
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert now - before < 1000 and peak - before < 1000


def test_no_references_are_lost(prepare):
    f = prepare("axpy")
    x, y = vectors()
    a = 2.5
    calls = [lambda: f(x, y, a), lambda: f(x, y, a=a), lambda: f.check(x, y, a), lambda: f.launch(slip.INLINE, x, y, a)]
    bad = [lambda: f(x, y), lambda: f(x, y, "1"), lambda: f(x, y[::2], a), lambda: f(x, None, a), lambda: f(x, y, a, z=1)]
    for call in calls + bad:
        counts = [sys.getrefcount(o) for o in (x, y, a, f)]
        for _ in range(50):
            try:
                call()
            except slip.SlipError:
                pass
        assert [sys.getrefcount(o) for o in (x, y, a, f)] == counts


def test_lock_is_let_go(prepare):
    """The kernel spins until this thread has run: only possible when the call let the interpreter's lock go."""
    f = prepare("wait")
    flag, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
    thread = threading.Thread(target=f, args=(flag, done))
    thread.start()
    flag[0] = 1
    thread.join()
    assert done[0] == 1


def test_threads(prepare):
    f = prepare("axpy")
    x = np.ones(64, np.float32)
    failures = []

    def work():
        try:
            y = np.zeros(64, np.float32)
            for i in range(200):
                f(x, y, 1.0)
                if i % 50 == 0:
                    try:
                        f(x, y, "no")
                        failures.append("not refused")
                    except slip.ArgumentTypeError:
                        pass
            if not (y == 200).all():
                failures.append(y)
        except BaseException as error:  # noqa: B902
            failures.append(error)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_fault_of_the_callable(prepare):
    f = prepare("fail")
    y = np.zeros(1, np.float32)
    assert f(y, 0) is y
    with pytest.raises(slip.GraphError, match="as wanted") as caught:
        f(y, 42)
    assert caught.value.code == -1109 and caught.value.name == "GRAPH_USER_FAIL"
    with slip.Stream() as stream:
        ticket = f.launch(stream, y, 7)
        for _ in range(2):
            with pytest.raises(slip.GraphError, match="as wanted"):
                ticket.wait()
        with pytest.raises(slip.GraphError):
            ticket.query()
        assert ticket.result is y
        assert f.launch(stream, y, 0).wait() is y


def test_sizes_change(prepare):
    """Short and long calls by turns, through both ways of the lock."""
    f = prepare("axpy")
    for n in (4, 1 << 20, 4, 16, 1 << 16, 4, 1 << 20, 1):
        x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
        for _ in range(3):
            f(x, y, 1.0)
        assert (y == 3).all()


def test_empty_and_zero_rank(prepare, folder, context):
    f = prepare("axpy")
    x = np.zeros(0, np.float32)
    assert f(x, x.copy(), 1.0).size == 0
    import programs
    g = context.prepare(programs.make(folder, "scalarish", "(inout y: f32[]) -> (y)", "(void)o; (void)args;"))
    y = np.zeros((), np.float32)
    assert g(y) is y
    with pytest.raises(slip.InvalidArgumentError, match="rank"):
        g(np.zeros(1, np.float32))
