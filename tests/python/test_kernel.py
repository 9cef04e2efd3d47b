# SPDX-License-Identifier: Apache-2.0
"""Artifacts, contexts, streams, tickets, errors."""
import gc
import json
import os
import pickle
import sys
import threading

import numpy as np
import pytest
import slipstream as slip


# --- artifacts --------------------------------------------------------------------------------------------------------------------------------------
def test_artifact(artifacts):
    a = artifacts("axpy")
    assert a.name == "axpy" and a.platform == "cpu" and a.contract == "kernel" and a.target in a.targets and len(a.key) >= 32
    assert str(a.signature) == "(in x: f32[N], inout y: f32[N], a: f32) -> (y)"
    assert json.loads(a.metadata)["name"] == "axpy" and a.handle
    assert [k.name for k in a.kernels] == ["axpy_kernel"] and a.kernels[0].tensors == 2 and a.kernels[0].scalars == 1
    assert "axpy(in x: f32[N]" in repr(a)
    a.verify()
    b = slip.load(a.path)
    assert b.signature == a.signature and b.key == a.key
    from pathlib import Path
    assert slip.load(Path(a.path)).name == "axpy" and slip.load(os.fsencode(a.path), target=a.target).target == a.target


def test_artifact_refusals(tmp_path, artifacts):
    with pytest.raises(slip.NotFoundError):
        slip.load(tmp_path / "nothing")
    with pytest.raises(slip.SlipError):
        slip.load(artifacts("axpy").path, target="pdp-11")
    with pytest.raises(TypeError):
        slip.load(7)
    with pytest.raises(ValueError):
        slip.load("a\0b")
    with pytest.raises(TypeError):
        slip.Artifact()
    import shutil
    broken = tmp_path / "broken.slipc"
    shutil.copytree(artifacts("axpy").path, broken)
    (broken / "compiled_meta.json").write_text("{")
    with pytest.raises(slip.SlipError) as caught:
        slip.load(broken)
    assert caught.value.code in (-14, -3)


def test_signature():
    s = slip.Signature("(in x: bf16[M,2048], w: i8[?], inout y: f32[M], eps: f32) -> (y, y)")
    assert [p.name for p in s.params] == ["x", "w", "y", "eps"] and len(s) == 4 and s.returns == (2, 2)
    assert s.params[0] == ("x", "in", "bf16", ("M", 2048), "nd") and s.params[1].shape == (None,)
    assert s.params[3] == ("eps", "scalar", "f32", None, None)
    assert slip.Signature(str(s)) == s and hash(slip.Signature(str(s))) == hash(s) and s != slip.Signature("()") and s != "x"
    assert json.loads(s.to_json())["return_aliases"] == [2, 2] and eval(repr(s), {"slipstream": slip}) == s
    with pytest.raises(slip.InvalidArgumentError, match="column"):
        slip.Signature("(in x: f33[N])")


def test_compile_refusals(tmp_path):
    manifest = tmp_path / "bad.json"
    manifest.write_text('{"slip": 1, "name": "bad", "entry": {"name": "bad", "symbol": "bad", "signature": "(in x: f32[N])"}, "kernels": [], "sources": ["bad.c"]}')
    (tmp_path / "bad.c").write_text("void bad(void) { return 1 }\n")
    with pytest.raises(slip.CompileError, match="bad.c") as caught:
        slip.compile(manifest, tmp_path / "out.slipc", progress=False)
    assert caught.value.code == -4 and any(d.severity == "error" and d.file.endswith("bad.c") and d.line == 1 for d in caught.value.diagnostics)
    assert not (tmp_path / "out.slipc").exists()
    with pytest.raises(slip.SlipError):
        slip.compile(tmp_path / "no.json", tmp_path / "out.slipc")
    with pytest.raises(slip.InvalidArgumentError, match="contract"):
        slip.compile(manifest, tmp_path / "out.slipc", contract="poem")


def test_compile_progress(folder, artifacts, tmp_path):
    steps = []
    artifacts("axpy")
    manifest = os.path.join(folder, "axpy.json")
    target = slip.device_info().target
    a = slip.compile(manifest, tmp_path / "a.slipc", targets=[target], progress=lambda *s: steps.append(s))
    assert a.targets == (target,) and steps and steps[-1][0] == steps[-1][1] and [s[0] for s in steps] == sorted(s[0] for s in steps)
    with pytest.raises(slip.ConflictError):
        slip.compile(manifest, tmp_path / "a.slipc", targets=target, progress=False)
    slip.compile(manifest, tmp_path / "a.slipc", targets=target, progress=False, replace=True)

    def stop(*_):
        raise KeyError("enough")
    with pytest.raises(KeyError, match="enough"):
        slip.compile(manifest, tmp_path / "b.slipc", targets=target, progress=stop)
    assert not (tmp_path / "b.slipc").exists()


# --- contexts ---------------------------------------------------------------------------------------------------------------------------------------
def test_context_life(artifacts):
    context = slip.kernel.open()
    assert context.state == "ready" and context.initialized and context.device == "cpu:0" and context.generation > 0 and context.handle
    assert slip.process_mode() == "kernel" and "ready" in repr(context)
    f = context.prepare(artifacts("axpy"))
    assert f.id == 0 and f.name == "axpy" and f.context is context and f.signature == artifacts("axpy").signature and "axpy(" in repr(f)
    assert context.prepare(artifacts("axpy")).id == 1
    context.close()
    context.close()
    assert context.state == "closed" and not context.initialized and context.handle == 0 and "closed" in repr(context)
    x, y = np.zeros(1, np.float32), np.zeros(1, np.float32)
    for call in (lambda: f(x, y, 1.0), lambda: f.launch(slip.INLINE, x, y, 1.0), lambda: context.prepare(artifacts("axpy")), context.graph, context.drain, context.stats):
        with pytest.raises(slip.InvalidStateError, match="closed") as caught:
            call()
        assert caught.value.code == -5
    f.close()
    with slip.kernel.open() as again:
        assert again.generation > context.generation


def test_shares(artifacts):
    a, b = slip.kernel.open(), slip.kernel.open()
    assert a.handle == b.handle and a is not b
    f, g = a.prepare(artifacts("axpy")), b.prepare(artifacts("axpy"))
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    a.close()
    with pytest.raises(slip.InvalidStateError):
        f(x, y, 1.0)
    assert g(x, y, 1.0) is y and b.stats().callables == 1
    with pytest.raises(slip.ConflictError, match="max_callables") as caught:
        slip.kernel.open(max_callables=3)
    assert caught.value.code == -7
    b.close()


def test_shares_of_threads(artifacts):
    """Threads that open and close at the same time never meet a context that another one is closing."""
    axpy, errors, interval = artifacts("axpy"), [], sys.getswitchinterval()

    def work():
        x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
        try:
            for _ in range(50):
                with slip.kernel.open() as context:
                    context.prepare(axpy)(x, y, 1.0)
            assert y.tolist() == [50.0] * 4
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors


def test_open_is_anchored(artifacts):
    """A context that is forgotten stays open for those who share it."""
    slip.kernel.open().prepare(artifacts("axpy"))
    gc.collect()
    with slip.kernel.open() as context:
        assert context.stats().callables == 0  # that callable was forgotten, and given back
    slip._core._close_all()


@pytest.mark.parametrize("options, words", [
    ({"task_window": 5}, "window"), ({"heap_bytes": 3}, "heap"), ({"task_window": (4, 4, 4)}, "scope depth"), ({"scheduler_threads": 1}, "thread"),
    ({"max_callables": -1}, "max_callables"), ({"max_callables": 1 << 40}, "max_callables"), ({"max_image_bytes": 1.5}, "max_image_bytes"), ({"device": "cpu:7"}, "."),
    ({"target": "pdp-11"}, "."), ({"task_window": ["x"] * 4}, "task_window"), ({"workspace_budget_bytes": 7}, "workspace"), ({"generation": 1 << 63}, "generation"),
], ids=str)
def test_open_refusals(options, words):
    with pytest.raises(slip.SlipError, match=words):
        slip.kernel.open(**options)
    assert not slip._core._close_all()


def test_open_other_refusals():
    with pytest.raises(slip.NotFoundError):
        slip.kernel.open("abacus")
    with pytest.raises(TypeError):
        slip.kernel.open(colour="red")
    with pytest.raises(TypeError):
        slip.kernel.Context()


def test_rings():
    with slip.kernel.open(task_window=(64, 32, 16, 8), heap_bytes=1 << 20, dependency_pool=[256] * 4, single_thread=True, max_in_flight=1) as context:
        assert context.stats().workers == 1


def test_prepare_refusals(context, artifacts):
    for bad in (None, "axpy.slipc", 3, artifacts("axpy").signature):
        with pytest.raises(slip.ArgumentTypeError, match="Artifact"):
            context.prepare(bad)


def test_capacity(artifacts):
    with slip.kernel.open(max_callables=2) as context:
        kept = [context.prepare(artifacts("axpy")) for _ in range(2)]
        with pytest.raises(slip.CapacityError) as caught:
            context.prepare(artifacts("axpy"))
        assert caught.value.code == -1005 and caught.value.name == "CAPACITY_COUNT"
        kept.pop()  # forgotten: given back
        assert context.prepare(artifacts("axpy")).id == 2


def test_callable_close(prepare):
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    with prepare("axpy") as f:
        f(x, y, 1.0)
    f.close()
    with pytest.raises(slip.NotPreparedError, match="axpy"):
        f(x, y, 1.0)
    assert "closed" in repr(f)


def test_functions(context, artifacts):
    f = slip.kernel.prepare(context, artifacts("axpy"))
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    with slip.Stream() as stream:
        slip.kernel.launch(f, stream, x, y, 2.0).wait()
    assert y[0] == 2
    slip.kernel.close(context)
    assert context.state == "closed"


def test_stats(context, artifacts):
    f = context.prepare(artifacts("axpy"))
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    before = context.stats()
    for _ in range(10):
        f(x, y, 1.0)
    after = context.stats()
    assert after.launches - before.launches == 10 and after.retired == after.launches and after.pending == 0 and after.callables == 1 and after.resident_bytes > 0


# --- streams and tickets ------------------------------------------------------------------------------------------------------------------------
def test_stream_order(prepare):
    f = prepare("axpy")
    x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
    with slip.Stream() as stream:
        tickets = [f.launch(stream, x, y, 1.0) for _ in range(100)]
        assert tickets[-1].wait() is y
        assert all(t.query() for t in tickets) and (y == 100).all()
        f(x, y, 1.0, stream=stream.handle)  # a raw handle
        stream.synchronize()
        assert stream.query() and y[0] == 101
        assert "cpu:0" in repr(stream)
    with pytest.raises(slip.InvalidStateError, match="closed"):
        f(x, y, 1.0, stream=stream)
    stream.close()


def test_stream_protocols(prepare):
    f = prepare("axpy")
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    with slip.Stream() as stream:
        class Lent:
            def __cuda_stream__(self):
                return (0, stream.handle)
        f(x, y, 1.0, stream=Lent())
        stream.synchronize()
        assert y[0] == 1
    for bad in ("x", None, 1.5, object(), type("L", (), {"__cuda_stream__": lambda self: 7})()):
        with pytest.raises(slip.ArgumentTypeError, match="stream"):
            f(x, y, 1.0, stream=bad)
    with pytest.raises(slip.InvalidArgumentError):
        f(x, y, 1.0, stream=0)
    with pytest.raises(ZeroDivisionError):
        f(x, y, 1.0, stream=type("L", (), {"__cuda_stream__": lambda self: 1 // 0})())
    assert slip.INLINE.query() and slip.INLINE.synchronize() is None and repr(slip.INLINE) == "slipstream.INLINE"
    slip.INLINE.close()
    f(x, y, 1.0, stream=slip.INLINE)


def test_ticket_waiting(prepare):
    f = prepare("wait")
    flag, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
    with slip.Stream() as stream:
        ticket = f.launch(stream, flag, done)
        assert not ticket.query() and ticket.result is done
        with pytest.raises(slip.TimedOutError) as caught:
            ticket.wait(0.02)
        assert isinstance(caught.value, TimeoutError) and caught.value.code == -15
        with pytest.raises(slip.TimedOutError):
            ticket.wait(timeout=0)
        for bad in (-1, float("nan")):
            with pytest.raises(slip.InvalidArgumentError, match="timeout"):
                ticket.wait(bad)
        with pytest.raises(TypeError):
            ticket.wait("soon")
        flag[0] = 1
        assert ticket.wait(1e9) is done and ticket.wait() is done and ticket.query() and done[0] == 1


def test_ticket_inline(prepare):
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    ticket = prepare("axpy").launch(slip.INLINE, x, y, 1.0)
    assert ticket.query() and ticket.wait() is y and y[0] == 1


def test_ticket_outlives(artifacts):
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    with slip.Stream() as stream:
        with slip.kernel.open() as context:
            ticket = context.prepare(artifacts("axpy")).launch(stream, x, y, 1.0)
        assert ticket.query() and ticket.wait() is y and y[0] == 1  # close() has waited


def test_wait_is_interrupted(python):
    """Ctrl-C reaches a thread that waits for a launch."""
    code = """
import numpy as np, signal, threading
with slip.kernel.open() as c, slip.Stream() as s:
    f = c.prepare(slip.load(folder + "/wait.slipc"))
    flag, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
    t = f.launch(s, flag, done)
    try:
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        t.wait()
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted")
    flag[0] = 1
    t.wait()
"""
    assert python(code, program=("wait",)).stdout.strip() == "interrupted"


def test_context_is_full(artifacts):
    """More launches than max_pending: they wait for room, without the lock."""
    with slip.kernel.open(max_pending=4) as context, slip.Stream() as stream:
        f, wait = context.prepare(artifacts("axpy")), context.prepare(artifacts("wait"))
        flag, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
        x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
        wait(flag, done, stream=stream)
        threading.Timer(0.05, flag.__setitem__, [0, 1]).start()
        for _ in range(20):
            f(x, y, 1.0, stream=stream)
        stream.synchronize()
        assert (y == 20).all() and done[0] == 1
        context.drain()
        assert context.stats().pending == 0


def test_close_waits_and_gives_back(artifacts):
    import sys
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    with slip.Stream() as stream:
        with slip.kernel.open() as context:
            f = context.prepare(artifacts("axpy"))
            count = sys.getrefcount(x)
            for _ in range(50):
                f(x, y, 1.0, stream=stream)
        assert (y == 50).all() and sys.getrefcount(x) == count


def test_close_in_another_thread(artifacts):
    """A context is closed while others call: each call works, or is refused."""
    for _ in range(10):
        context = slip.kernel.open()
        f = context.prepare(artifacts("axpy"))
        outcome, start = [], threading.Barrier(4)

        def work():
            x, y = np.ones(1 << 14, np.float32), np.zeros(1 << 14, np.float32)
            start.wait()
            try:
                for _ in range(1000):
                    f(x, y, 1.0)
                outcome.append("done")
            except (slip.InvalidStateError, slip.NotPreparedError):
                outcome.append("refused")
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        start.wait()
        context.close()
        for thread in threads:
            thread.join()
        assert len(outcome) == 3 and context.state == "closed"


def test_events():
    with slip.Stream() as a, slip.Stream() as b, slip.Event() as event:
        assert event.query()
        event.record(a)
        b.wait_event(event)
        event.synchronize()
        a.synchronize()
        assert event.query()
        with pytest.raises(slip.ArgumentTypeError):
            b.wait_event(7)
    with pytest.raises(slip.InvalidStateError):
        event.query()


def test_cpu_has_no_capture():
    with slip.Stream() as stream:
        assert stream.capture_state() == "none"
        with pytest.raises(slip.UnsupportedError) as caught:
            stream.capture_begin()
        assert isinstance(caught.value, NotImplementedError)
        with pytest.raises(slip.InvalidArgumentError, match="mode"):
            stream.capture_begin("sideways")


def test_platforms():
    assert {"cpu", "sim"} <= set(slip.platforms()) and slip.device_count() >= 1
    info = slip.device_info()
    assert info.platform == "cpu" and info.device == 0 and info.cores >= 1 and info.target and info.memory_bytes > 0
    with pytest.raises(slip.NotFoundError):
        slip.device_count("abacus")
    with pytest.raises(slip.SlipError):
        slip.device_info("cpu:99")


# --- errors ----------------------------------------------------------------------------------------------------------------------------------------
def test_error_families():
    for name in slip.exceptions.__all__:
        cls = getattr(slip, name)
        assert issubclass(cls, slip.SlipError) and issubclass(cls, RuntimeError) and cls.__doc__ and cls.__module__ == "slipstream"
        made = cls("by hand")
        assert made.code is None and made.platform_code is None and made.name is None and str(made) == "by hand"
        assert type(pickle.loads(pickle.dumps(made))) is cls
    for name, parent in {"UnsupportedError": NotImplementedError, "InvalidArgumentError": ValueError, "ArgumentTypeError": TypeError, "OutOfMemoryError": MemoryError,
                         "TimedOutError": TimeoutError}.items():
        assert issubclass(getattr(slip, name), parent)


def test_error_codes():
    with pytest.raises(slip.NotFoundError) as caught:
        slip.load("/no/such/artifact")
    error = caught.value
    assert error.code == -12 and error.name == "NOT_FOUND" and isinstance(error.platform_code, int)
    text = str(error)
    assert "/no/such/artifact" in text and not text.startswith("NOT_FOUND") and ".c:" not in text
