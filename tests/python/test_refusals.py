# SPDX-License-Identifier: Apache-2.0
"""Bad input: each refusal names the callable, the parameter by index, name and direction, what was expected, what came, the remedy; nothing happened."""
import numpy as np
import pytest
import slipstream as slip


def ones(shape, dtype=np.float32):
    return np.ones(shape, dtype)


READ_ONLY = ones(4)
READ_ONLY.flags.writeable = False
BASE = ones(16)

CASES = {
    "not a tensor": (lambda x, y: (1, y, 1.0), "parameter 0 'x' \\(in\\)", "expects a tensor"),
    "a list": (lambda x, y: ([1.0] * 4, y, 1.0), "'x'", "expects a tensor"),
    "none": (lambda x, y: (x, None, 1.0), "parameter 1 'y' \\(inout\\)", "expects a tensor"),
    "a type": (lambda x, y: (x, np.ndarray, 1.0), "'y'", "expects a tensor"),
    "dtype": (lambda x, y: (ones(4, np.float64), y, 1.0), "parameter 0 'x' \\(in\\)", "f64"),
    "rank": (lambda x, y: (ones((2, 2)), y, 1.0), "'x'", "rank"),
    "dims disagree": (lambda x, y: (ones(5), y, 1.0), "'y'", "N"),
    "read-only output": (lambda x, y: (x, READ_ONLY, 1.0), "'y'", "writable"),
    "strided": (lambda x, y: (x, ones(8)[::2], 1.0), "'y'", "contiguous"),
    "reversed": (lambda x, y: (x[::-1], y, 1.0), "'x'", "contiguous"),
    "broadcast": (lambda x, y: (np.broadcast_to(np.float32(1), 4), y, 1.0), "'x'", "contiguous"),
    "partial overlap": (lambda x, y: (BASE[0:4], BASE[2:6], 1.0), "'[xy]'", "overlap"),
    "scalar out of range": (lambda x, y: (x, y, 1e60), "parameter 2 'a' \\(scalar\\)", "overflows"),
    "scalar text": (lambda x, y: (x, y, "1"), "parameter 2 'a' \\(scalar\\)", "expects a f32"),
    "scalar tensor": (lambda x, y: (x, y, ones(())), "'a'", "item"),
    "scalar bool": (lambda x, y: (x, y, True), "'a'", "float\\(value\\)"),
    "a closed buffer": (lambda x, y: (released(), y, 1.0), "'x'", "."),
}


def released():
    view = memoryview(bytearray(16))
    view.release()
    return view


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["call", "stream", "launch", "check", "graph"])
def test_refused(context, prepare, case, way):
    make, where, words = CASES[case]
    f = prepare("axpy")
    x, y = ones(4), ones(4)
    args = make(x, y)
    before = context.stats().launches
    with slip.Stream() as stream, context.graph() as graph:
        calls = {"call": lambda: f(*args), "stream": lambda: f(*args, stream=stream), "launch": lambda: f.launch(stream, *args), "check": lambda: f.check(*args),
                 "graph": lambda: graph.add(f, *args)}
        with pytest.raises(slip.InvalidArgumentError, match=where) as caught:
            calls[way]()
    text = str(caught.value)
    assert text.startswith("axpy: ") and caught.value.code == -4 and caught.value.name == "INVALID_ARGUMENT"
    import re
    assert re.search(words, text), text
    assert context.stats().launches == before and list(y) == [1] * 4


def test_aliases_that_are_allowed(prepare):
    f = prepare("axpy")
    y = ones(4)
    f(y, y, 1.0)  # the very same span
    assert list(y) == [2] * 4
    f(y[:2], y[2:], 1.0)  # disjoint parts of one storage
    assert list(y) == [2, 2, 4, 4]


def test_zero_size_with_wild_offsets(prepare):
    f = prepare("axpy")
    base = ones(4)
    empty = np.lib.stride_tricks.as_strided(base[4:], (0,), (4,))
    assert f(empty, np.lib.stride_tricks.as_strided(base, (0,), (1 << 40,)), 1.0).size == 0


def test_resized_in_flight_is_refused_by_the_owner(context, prepare):
    """What a launch uses cannot be pulled away: the owner's own rules hold while we have its buffer."""
    f = prepare("copy", "u8", 1)
    wait = prepare("wait")
    flag, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
    x, y = bytearray(b"abcd"), bytearray(4)
    with slip.Stream() as stream:
        wait(flag, done, stream=stream)
        f(x, y, stream=stream)
        with pytest.raises(BufferError):
            x.append(1)
        flag[0] = 1
        stream.synchronize()
    context.drain()
    x.append(1)
    assert bytes(y) == b"abcd"


def test_unhashable_and_odd_objects(prepare):
    f = prepare("axpy")

    class Odd:
        __hash__ = None

        def __repr__(self):
            raise RuntimeError("no repr")

        def __getattr__(self, name):
            raise RuntimeError("no " + name)
    with pytest.raises((slip.SlipError, RuntimeError)):
        f(Odd(), ones(4), 1.0)
    with pytest.raises((slip.SlipError, RuntimeError)):
        f(ones(4), ones(4), Odd())


def test_memory_error_of_a_producer_is_not_disguised(prepare):
    class Producer:
        def __dlpack__(self, **_):
            raise MemoryError
    with pytest.raises(MemoryError):
        prepare("axpy")(Producer(), ones(4), 1.0)
