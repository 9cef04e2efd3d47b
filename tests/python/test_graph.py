# SPDX-License-Identifier: Apache-2.0
"""Recorded graphs."""
import gc
import sys
import threading

import numpy as np
import pytest
import slipstream as slip


def zeros(n=4):
    return np.zeros(n, np.float32)


def test_record_and_replay(context, prepare):
    f = prepare("axpy")
    x, y, z = np.ones(4, np.float32), zeros(), zeros()
    with context.graph() as graph:
        first, second = graph.add(f, x, y, 2.0), graph.add(f, y, z, a=10.0)
        assert (first, second) == (0, 1) and len(graph) == 2 and "2 launches" in repr(graph)
        assert graph() is None
        assert list(y) == [2] * 4 and list(z) == [20] * 4
        graph.bind(second, y, z, 100.0)
        with slip.Stream() as stream:
            ticket = graph.launch(stream)
            assert ticket.wait() is None and ticket.result is None
            graph(stream=stream)
            stream.synchronize()
        assert list(y) == [6] * 4 and list(z) == [20 + 400 + 600] * 4
        assert graph.launch().query()
    for call in (graph, graph.launch, lambda: graph.add(f, x, y, 1.0), lambda: graph.bind(0, x, y, 1.0)):
        with pytest.raises(slip.InvalidStateError, match="closed"):
            call()
    graph.close()


def test_empty_graph(context):
    with context.graph() as graph:
        graph()
        assert len(graph) == 0


def test_graph_keeps_tensors(context, prepare):
    f = prepare("axpy")
    x, y, other = np.ones(4, np.float32), zeros(), np.full(4, 5, np.float32)
    count = sys.getrefcount(x)
    graph = context.graph()
    graph.add(f, x, y, 1.0)
    assert sys.getrefcount(x) > count
    f.close()  # the graph keeps the callable
    graph()
    assert y[0] == 1
    graph.bind(0, other, y, 1.0)
    graph()
    assert y[0] == 6
    gc.collect()
    assert sys.getrefcount(x) == count  # no replay was left that used it
    del graph
    assert sys.getrefcount(other) == 2


def test_bind_while_replays_run(context, prepare, artifacts):
    wait, f = prepare("wait"), prepare("axpy")
    flag, done, y = np.zeros(1, np.int32), np.zeros(1, np.int32), zeros()
    sources = [np.full(4, i, np.float32) for i in range(4)]
    counts = [sys.getrefcount(s) for s in sources]
    with slip.Stream() as stream:
        wait(flag, done, stream=stream)
        with context.graph() as graph:
            graph.add(f, sources[0], y, 1.0)
            for i in range(1, 4):
                graph(stream)
                graph.bind(0, sources[i], y, 1.0)
            graph(stream)
            assert all(sys.getrefcount(s) > c for s, c in zip(sources, counts))
        # The graph is gone while its replays have not begun.
        flag[0] = 1
        stream.synchronize()
    context.drain()
    assert list(y) == [0 + 1 + 2 + 3] * 4
    assert [sys.getrefcount(s) for s in sources] == counts


def test_close_ends_graphs(artifacts):
    context = slip.kernel.open()
    f = context.prepare(artifacts("axpy"))
    graph = context.graph()
    graph.add(f, zeros(), zeros(), 1.0)
    context.close()
    assert "closed" in repr(graph)
    with pytest.raises(slip.InvalidStateError):
        graph()
    with pytest.raises(slip.InvalidStateError):
        context.graph()


def test_refusals(context, prepare, artifacts):
    f = prepare("axpy")
    x, y = zeros(), zeros()
    with context.graph() as graph:
        for bad in [(), (x, y, 1.0), (None, x, y, 1.0)]:
            with pytest.raises(slip.ArgumentTypeError, match="Callable"):
                graph.add(*bad)
        with pytest.raises(slip.ArgumentTypeError, match="missing"):
            graph.add(f, x, y)
        with pytest.raises(slip.InvalidArgumentError, match="'y'"):
            graph.add(f, x, zeros(5), 1.0)
        assert len(graph) == 0
        graph.add(f, x, y, 1.0)
        for node in (1, -1, "0", None, 1 << 70):
            with pytest.raises(slip.InvalidArgumentError, match="node"):
                graph.bind(node, x, y, 1.0)
        with pytest.raises(slip.InvalidArgumentError, match="'y'"):
            graph.bind(0, x, y[::2], 1.0)
        graph()
        with pytest.raises(slip.InvalidStateError):
            graph.add(f, x, y, 1.0)
    closed = prepare("axpy")
    closed.close()
    with context.graph() as graph, pytest.raises(slip.NotPreparedError):
        graph.add(closed, x, y, 1.0)


def test_fault_names_the_node(context, prepare):
    f = prepare("fail")
    y = zeros()
    with context.graph() as graph, slip.Stream() as stream:
        graph.add(f, y, 0)
        graph.add(f, y, 3)
        with pytest.raises(slip.GraphError, match="1"):
            graph()
        with pytest.raises(slip.GraphError, match="as wanted"):
            graph.launch(stream).wait()


def test_threads_replay_and_bind(context, prepare):
    f = prepare("axpy")
    x, ys = np.ones(16, np.float32), [zeros(16) for _ in range(3)]
    failures = []
    with context.graph() as graph:
        graph.add(f, x, ys[0], 1.0)

        def work(kind):
            try:
                with slip.Stream() as stream:
                    for i in range(60):
                        if kind == "bind":
                            graph.bind(0, x, ys[i % 3], 0.0)
                        else:
                            graph.launch(stream).wait()
            except BaseException as error:  # noqa: B902
                failures.append(error)
        threads = [threading.Thread(target=work, args=(k,)) for k in ("bind", "replay", "replay")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
