# SPDX-License-Identifier: Apache-2.0
"""Tensors in and out by buffers and DLPack, views against NumPy."""
import array
import ctypes
import gc
import mmap
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest
import slipstream as slip
from hypothesis import assume, given, settings
from hypothesis import strategies as st

DTYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
          "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_}
CARRIED = {"bf16": ml_dtypes.bfloat16, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "f8e8m0": ml_dtypes.float8_e8m0fnu}


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_both_ways(dtype):
    x = np.arange(24).reshape(2, 3, 4).astype(DTYPES[dtype])
    t = slip.Tensor(x)
    assert (t.dtype, t.shape, t.strides, t.device, t.ndim) == (dtype, (2, 3, 4), (12, 4, 1), "cpu:0", 3)
    assert t.data_ptr == x.ctypes.data and t.nbytes == x.nbytes and t.itemsize == x.itemsize and len(t) == 2 and t.contiguous and not t.read_only
    for back in (np.asarray(t), t.numpy(), np.from_dlpack(t), np.asarray(memoryview(t))):
        assert back.dtype == x.dtype and back.ctypes.data == x.ctypes.data and np.array_equal(back, x)


@pytest.mark.parametrize("dtype", CARRIED)
def test_ml_dtypes_both_ways(dtype):
    x = np.arange(8).astype(CARRIED[dtype]).reshape(2, 4)
    t = slip.Tensor(x)
    assert t.dtype == dtype and t.shape == (2, 4) and t.data_ptr == x.ctypes.data
    assert t.numpy().dtype == x.dtype and t.numpy().tobytes() == x.tobytes()
    with pytest.raises(BufferError, match="numpy()"):
        memoryview(t)
    strided = slip.Tensor(x.T)
    assert strided.shape == (4, 2) and strided.strides == (1, 4)
    carrier = slip.Tensor(np.zeros(4, np.uint16 if dtype == "bf16" else np.uint8), dtype=dtype)
    assert carrier.dtype == dtype


def test_calls_with_ml_dtypes(prepare):
    for dtype in ("bf16", "f8e4m3fn"):
        f = prepare("copy", dtype, 2)
        x = np.arange(12).astype(CARRIED[dtype]).reshape(3, 4)
        y = np.zeros_like(x)
        assert f(x, y) is y and y.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", ["f64", "i8", "u64", "bool", "f16"])
def test_calls_by_dtype(prepare, dtype):
    f = prepare("copy", dtype, 1)
    x = (np.arange(9) % 2).astype(DTYPES[dtype])
    y = np.zeros_like(x)
    assert f(x, y) is y and np.array_equal(x, y)
    with pytest.raises(slip.InvalidArgumentError, match="'y'.*dtype"):
        f(x, np.zeros(9, np.float32))


def test_other_buffers(prepare):
    f = prepare("copy", "u8", 1)
    y = bytearray(4)
    assert f(b"abcd", y) is y and bytes(y) == b"abcd"
    f(memoryview(b"wxyz"), memoryview(y))
    assert bytes(y) == b"wxyz"
    f(array.array("B", [1, 2, 3, 4]), y)
    assert list(y) == [1, 2, 3, 4]
    with mmap.mmap(-1, 4096) as page:
        f(bytes(4096), page)
    box = (ctypes.c_uint8 * 4)(9, 8, 7, 6)
    f(box, y)
    assert list(y) == [9, 8, 7, 6]


def test_buffer_is_given_back(prepare):
    f = prepare("copy", "u8", 1)
    y = bytearray(4)
    f(b"abcd", y)
    y.append(1)  # BufferError if an export were left
    with pytest.raises(slip.SlipError):
        f(b"abcde", bytearray(4))
    with slip.Stream() as stream:
        f.launch(stream, b"abcde", y).wait()
    y.append(1)


def test_read_only():
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    t = slip.Tensor(x)
    assert t.read_only and "read-only" in repr(t)
    with pytest.raises((BufferError, TypeError), match="read-only|writable"):
        ctypes.c_char.from_buffer(t)
    assert memoryview(t).readonly
    with pytest.raises(BufferError, match="max_version"):
        t.__dlpack__()
    assert not np.from_dlpack(t).flags.writeable


def test_dlpack_old_and_new():
    x = np.arange(6, dtype=np.int32).reshape(2, 3)

    class Old:  # of before DLPack 1.0
        def __dlpack__(self, stream=None):
            return x.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    class New:
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            assert max_version >= (1, 0)
            return x.__dlpack__(max_version=max_version)

        def __dlpack_device__(self):
            return (1, 0)
    for source in (Old(), New()):
        references = sys.getrefcount(x)
        t = slip.from_dlpack(source)
        assert t.data_ptr == x.ctypes.data and t.shape == (2, 3) and t.dtype == "i32"
        assert sys.getrefcount(x) > references
        del t
        assert sys.getrefcount(x) == references


def test_dlpack_bad_producers():
    class Bad:
        def __init__(self, answer):
            self.answer = answer

        def __dlpack__(self, **_):
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer
    with pytest.raises(slip.ArgumentTypeError, match="capsule"):
        slip.Tensor(Bad(7))
    with pytest.raises(slip.InvalidArgumentError, match="gone") as caught:
        slip.Tensor(Bad(BufferError("gone")))
    assert isinstance(caught.value.__cause__, BufferError)
    used = np.zeros(3).__dlpack__()
    slip.Tensor(Bad(used))
    with pytest.raises(slip.ArgumentTypeError, match="unused"):
        slip.Tensor(Bad(used))
    with pytest.raises(KeyboardInterrupt):
        slip.Tensor(type("B", (), {"__dlpack__": lambda self, **_: (_ for _ in ()).throw(KeyboardInterrupt())})())


def test_dlpack_tensors_are_asked_too(prepare):
    """A framework of before the exchange table: a negated view looks like any other in DLPack."""
    class Old:
        requires_grad, negated = False, False

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **named):
            return self.array.__dlpack__(**named)

        def is_neg(self):
            return self.negated
    f = prepare("axpy")
    x, y = Old(np.ones(4, np.float32)), Old(np.zeros(4, np.float32))
    assert f(x, y, 2.0) is y and y.array[0] == 2
    x.negated = True
    with pytest.raises(slip.InvalidArgumentError, match="'x'.*neg"):
        f(x, y, 1.0)
    y.requires_grad = True
    x.negated = False
    with pytest.raises(slip.InvalidArgumentError, match="'y'.*grad"):
        f(x, y, 1.0)
    del Old.is_neg
    assert y.array[0] == 2


def test_capsules_that_nobody_takes():
    t = slip.empty(4)
    references = sys.getrefcount(t)
    for version in (None, (1, 0), (0, 8)):
        capsule = t.__dlpack__(max_version=version)
        assert sys.getrefcount(t) == references + 1
        del capsule
        assert sys.getrefcount(t) == references
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="device"):
        t.__dlpack__(dl_device=(2, 0))
    twin = np.from_dlpack(t)
    del t
    gc.collect()
    twin[:] = 1  # the memory is still there


def test_dlpack_copy():
    x = np.arange(4, dtype=np.float32)
    t = slip.Tensor(x)
    copy = slip.from_dlpack(type("P", (), {"__dlpack__": lambda self, **_: t.__dlpack__(max_version=(1, 0), copy=True)})())
    assert copy.data_ptr != t.data_ptr and np.array_equal(np.asarray(copy), x)


def test_source_is_kept_alive():
    class Owner(np.ndarray):
        pass
    x = np.zeros(4, np.float32).view(Owner)
    alive = weakref.ref(x)
    t = slip.Tensor(x)
    view = t.slice(0, 1, 2)
    del x, t
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


def test_tensor_of_a_tensor():
    x = np.zeros((2, 2), np.uint16)
    t = slip.Tensor(slip.Tensor(x), dtype="bf16")
    assert t.dtype == "bf16" and t.data_ptr == x.ctypes.data
    with pytest.raises(slip.InvalidArgumentError, match="same size"):
        slip.Tensor(x, dtype="f32")
    with pytest.raises(slip.InvalidArgumentError, match="nonsense"):
        slip.Tensor(x, dtype="nonsense")


@pytest.mark.parametrize("source, words", [
    (np.zeros(3, ">f4"), "native"), (np.zeros(3, np.complex64), "no dtype"), (np.zeros(3, "datetime64[s]"), "."), (np.zeros(3, "U3"), "."),
    (np.zeros((1,) * 6), "rank 6"), (np.array([object()]), "."), (np.zeros(3, [("a", "i4")]), "."),
    (np.frombuffer(bytes(50), [("a", "f4"), ("b", "i1")])["a"], "multiple"),
], ids=["swapped", "complex", "datetime", "text", "rank", "object", "record", "odd stride"])
def test_refused_arrays(source, words):
    with pytest.raises(slip.InvalidArgumentError, match=words):
        slip.Tensor(source)


@pytest.mark.parametrize("source", [1, 1.5, None, "text", [1.0], {}, object(), slip.Tensor], ids=repr)
def test_refused_types(source):
    with pytest.raises(slip.ArgumentTypeError, match="expects a tensor"):
        slip.Tensor(source)


def test_empty():
    assert slip.empty((), "f64").shape == () and slip.empty(0).nbytes == 0 and slip.empty((3, 0, 2)).shape == (3, 0, 2)
    assert slip.empty(5, "bool").data_ptr % 64 == 0
    for shape in (-1, (2, -3), (1,) * 6, (1 << 62, 1 << 62)):
        with pytest.raises(slip.SlipError):
            slip.empty(shape)
    with pytest.raises(slip.OutOfMemoryError) as caught:
        slip.empty(1 << 58)
    assert isinstance(caught.value, MemoryError)
    with pytest.raises(slip.InvalidArgumentError, match="float"):
        slip.empty(4, "float")
    with pytest.raises(TypeError):
        slip.empty(4.5)
    for device in ("", "cpu:", "cpu:x", "cpu:-1", ":0", "cpu:99999999"):
        with pytest.raises(slip.InvalidArgumentError, match="device"):
            slip.empty(4, device=device)
    with pytest.raises(slip.NotFoundError):
        slip.empty(4, device="abacus")
    with pytest.raises(TypeError, match="rank 0"):
        len(slip.empty(()))


def test_copies():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = slip.empty((2, 3))
    assert t.copy_from(x) is t and np.array_equal(t.to_host(), x)
    for bad in (x.T, x.astype(np.float64), x[0], x[:, ::2]):
        with pytest.raises(slip.InvalidArgumentError, match="contiguous tensors of one dtype and shape"):
            t.copy_from(bad)
    with pytest.raises(slip.InvalidArgumentError, match="read-only"):
        slip.Tensor(b"abc").copy_from(b"abc")


def test_collected_in_cycles():
    class Holder(np.ndarray):
        pass
    x = np.zeros(3).view(Holder)
    x.tensor = slip.Tensor(x)
    alive = weakref.ref(x)
    del x
    gc.collect()
    # The cycle goes through the array's dictionary, which the collector can clear.
    assert alive() is None


def shapes():
    return st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


@settings(max_examples=300)
@given(shapes(), st.data())
def test_views_against_numpy(shape, data):
    """Random slices, transpositions and permutations give the addresses that NumPy's give."""
    x = np.arange(max(int(np.prod(shape)), 1), dtype=np.int32)[:int(np.prod(shape))].reshape(shape)
    t = slip.Tensor(x)
    for _ in range(data.draw(st.integers(0, 4))):
        if not t.ndim:
            break
        kind = data.draw(st.sampled_from(["slice", "transpose", "permute"]))
        if kind == "slice":
            axis = data.draw(st.integers(0, t.ndim - 1))
            start = data.draw(st.integers(0, t.shape[axis]))
            step = data.draw(st.integers(1, 3))
            length = data.draw(st.integers(0, max(0, -(-(t.shape[axis] - start) // step))))
            if length == 0 and start == t.shape[axis]:
                start = 0
            assume(t.shape[axis] > 0)
            t = t.slice(axis, start, length, step)
            x = x[(slice(None),) * axis + (slice(start, start + length * step, step),)]
        elif kind == "transpose":
            a, b = data.draw(st.integers(0, t.ndim - 1)), data.draw(st.integers(0, t.ndim - 1))
            t, x = t.transpose(a, b), np.swapaxes(x, a, b)
        else:
            order = data.draw(st.permutations(range(t.ndim)))
            t, x = t.permute(*order), np.transpose(x, order)
    assert t.shape == x.shape
    if x.size:
        assert t.data_ptr == x.ctypes.data
        assert all(a * 4 == b for a, b, n in zip(t.strides, x.strides, x.shape) if n > 1)
    assert np.array_equal(np.asarray(t), x)
    assert t.contiguous == x.flags.c_contiguous
    again = slip.Tensor(x)
    assert again.shape == x.shape and again.contiguous == t.contiguous


@settings(max_examples=200)
@given(shapes(), st.data())
def test_calls_take_contiguous_only(copies, shape, data):
    """Whatever view NumPy makes: taken if it is row-major without gaps, refused by name otherwise."""
    x = np.arange(4 ** len(shape) if shape else 1, dtype=np.int32).reshape((4,) * len(shape))
    view = x
    for axis, size in enumerate(shape):
        step = data.draw(st.sampled_from([1, 1, 1, 2, -1]))
        view = view[(slice(None),) * axis + (slice(None, None, step),)]
        view = view[(slice(None),) * axis + (slice(0, size),)]
    view = np.transpose(view, data.draw(st.permutations(range(view.ndim))))
    assume(view.ndim >= 1)
    f = copies(view.ndim)
    out = np.full(view.shape, -1, np.int32)
    if view.flags.c_contiguous:
        f(view, out)
        assert np.array_equal(out, view)
    else:
        with pytest.raises(slip.InvalidArgumentError, match="'x'.*contiguous"):
            f(view, out)
        assert (out == -1).all()


@pytest.fixture(scope="module")
def copies(artifacts):
    with slip.kernel.open() as context:
        made = {}

        def get(rank):
            if rank not in made:
                made[rank] = context.prepare(artifacts("copy", "i32", rank))
            return made[rank]
        yield get


@pytest.mark.parametrize("method, args", [("slice", (5, 0, 1)), ("slice", (0, 3, 9)), ("slice", (0, 0, 1, 0)), ("transpose", (0, 7)), ("permute", (0, 0)), ("permute", (1,)),
                                          ("permute", (-1, 0)), ("reshape", (5,)), ("reshape", (-1, -1)), ("reshape", (1,) * 6)])
def test_refused_views(method, args):
    t = slip.empty((2, 3))
    with pytest.raises(slip.InvalidArgumentError):
        getattr(t, method)(*args)


def test_reshape():
    t = slip.empty((2, 6))
    assert t.reshape(3, -1).shape == (3, 4) and t.reshape().shape == () if t.nbytes == 4 else True
    assert t.reshape(12).data_ptr == t.data_ptr
    with pytest.raises(slip.InvalidArgumentError):
        t.transpose(0, 1).reshape(12)


def test_reprs():
    assert repr(slip.empty((2, 3), "bf16")).startswith("<slipstream.Tensor bf16[2,3]")
    assert "cpu:0" in repr(slip.empty(1))
