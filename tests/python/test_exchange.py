# SPDX-License-Identifier: Apache-2.0
"""Tensors by the DLPack C exchange table on their type."""
import gc
import sys

import build_foreign
import numpy as np
import pytest
import slipstream as slip


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    return build_foreign.build(tmp_path_factory.mktemp("foreign"))


def floats(vector):
    return np.frombuffer(vector, np.float32)


@pytest.mark.parametrize("name", ["Vector", "Plain", "Old", "Newer"])
def test_table_is_used(foreign, prepare, name):
    f = prepare("axpy")
    x, y = getattr(foreign, name)(4), getattr(foreign, name)(4)
    floats(x)[:] = [1, 2, 3, 4]
    before = foreign.counts()
    assert f(x, y, 2.0) is y
    after = foreign.counts()
    assert list(floats(y)) == [2, 4, 6, 8]
    assert after[0] - before[0] == 2  # a view each
    assert after[1:] == before[1:]  # nothing made, no __dlpack__


def test_asynchronous_calls_keep_the_storage(foreign, prepare, artifacts, context):
    f = prepare("axpy")
    wait = prepare("wait")
    before = foreign.counts()
    flag, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
    with slip.Stream() as stream:
        wait.launch(stream, flag, done)
        x, y = foreign.Vector(4), foreign.Vector(4)
        look = floats(y)
        floats(x)[:] = 1
        f(x, y, 3.0, stream=stream)
        references = sys.getrefcount(x)
        del x, y
        gc.collect()
        assert references >= 3  # ours is one of them
        assert foreign.counts()[1] - before[1] == 2 and foreign.counts()[2] == before[2]
        flag[0] = 1
        stream.synchronize()
    context.drain()
    assert list(look) == [3, 3, 3, 3] and done[0] == 1
    assert foreign.counts()[2] - before[2] == 2


def test_mixed_with_numpy(foreign, prepare):
    f = prepare("axpy")
    x, y = foreign.Vector(3), np.ones(3, np.float32)
    floats(x)[:] = 1
    assert f(x, y, 1.0) is y and list(y) == [2, 2, 2]
    assert f(y, x, 1.0) is x and list(floats(x)) == [3, 3, 3]


def test_failure_of_the_producer(foreign, prepare):
    f = prepare("axpy")
    x, y = foreign.Vector(3), foreign.Vector(3)
    y.fail = 1
    with pytest.raises(slip.InvalidArgumentError, match="'y'.*asked to fail") as caught:
        f(x, y, 1.0)
    assert isinstance(caught.value.__cause__, RuntimeError)
    with slip.Stream() as stream, pytest.raises(slip.InvalidArgumentError, match="asked to fail"):
        f.launch(stream, x, y, 1.0)
    before = foreign.counts()
    assert before[1] == before[2]  # x was given back


def test_overlap_is_refused(foreign, prepare):
    f = prepare("axpy")
    y = foreign.Vector(8)
    array = floats(y)
    with pytest.raises(slip.InvalidArgumentError, match="overlap"):
        f(array[1:], y and array[:7], 1.0)


def test_negative_view(foreign, prepare):
    f = prepare("axpy")
    x, y = foreign.Vector(3), foreign.Vector(3)
    x.ask(False, True)
    with pytest.raises(slip.InvalidArgumentError, match="'x'.*neg"):
        f(x, y, 1.0)


def test_gradients(foreign, prepare, monkeypatch):
    f = prepare("axpy")
    x, y = foreign.Vector(3), foreign.Vector(3)
    x.ask(True, False)
    with pytest.raises(slip.InvalidArgumentError, match="'x'.*grad"):
        f(x, y, 1.0)  # nobody can be asked whether autograd is on: the safe answer

    class Torch:
        enabled = True

        @classmethod
        def is_grad_enabled(cls):
            return cls.enabled
    monkeypatch.setitem(sys.modules, "torch", Torch)
    with pytest.raises(slip.InvalidArgumentError, match="'x'.*grad"):
        f(x, y, 1.0)
    Torch.enabled = False
    f(x, y, 1.0)
    Torch.is_grad_enabled = None
    with pytest.raises(slip.InvalidArgumentError, match="'x'.*grad"):
        f(x, y, 1.0)


def test_our_table_from_outside():
    """tvm-ffi and others read a slipstream.Tensor by the table; here by ctypes."""
    import ctypes

    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                    ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                    ("byte_offset", ctypes.c_uint64)]

    class Managed(ctypes.Structure):
        pass
    Managed._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.PYFUNCTYPE(None, ctypes.POINTER(Managed))),
                        ("flags", ctypes.c_uint64), ("tensor", Tensor)]
    set_error = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)

    class Table(ctypes.Structure):
        _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                    ("allocate", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.POINTER(Managed)), ctypes.c_void_p, set_error)),
                    ("managed", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Managed)))),
                    ("wrap", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Managed), ctypes.POINTER(ctypes.py_object))),
                    ("view", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))),
                    ("stream", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)))]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = Table.from_address(pointer(slip.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))
    assert table.major == 1

    x = slip.empty((2, 3), "i16")
    view = Tensor()
    assert table.view(x, view) == 0
    assert view.data == x.data_ptr and view.ndim == 2 and (view.code, view.bits, view.lanes) == (0, 16, 1)
    assert view.shape[:2] == [2, 3] and view.strides[:2] == [3, 1] and view.device_type == 1

    references = sys.getrefcount(x)
    managed = ctypes.POINTER(Managed)()
    assert table.managed(x, managed) == 0 and sys.getrefcount(x) == references + 1
    made = ctypes.py_object()
    assert table.wrap(managed, made) == 0
    twin = made.value
    assert isinstance(twin, slip.Tensor) and twin.data_ptr == x.data_ptr and twin.shape == (2, 3)
    address = id(twin)
    assert address
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(twin))  # ours from wrap
    del twin
    made.value = None
    gc.collect()
    assert sys.getrefcount(x) == references

    fresh = ctypes.POINTER(Managed)()
    errors = []
    report = set_error(lambda _, kind, text: errors.append((kind, text)))
    assert table.allocate(view, fresh, None, report) == 0 and fresh.contents.tensor.data != x.data_ptr
    fresh.contents.deleter(fresh)
    view.device_type = 2
    assert table.allocate(view, fresh, None, report) != 0 and errors[0][0] == b"BufferError"
    stream = ctypes.c_void_p(7)
    assert table.stream(1, 0, stream) == 0 and stream.value is None
    with pytest.raises(BufferError):
        table.stream(2, 0, stream)
    frozen = slip.Tensor(b"abcd")
    with pytest.raises(BufferError, match="read-only"):
        table.view(frozen, view)
