# SPDX-License-Identifier: Apache-2.0
"""An emulated accelerator for PyTorch: a PrivateUse1 backend named "emu" whose memory, streams, events and captures are those of slipstream's simulator.

PyTorch sees an ordinary out-of-tree backend: its own facilities for backends written in Python make the device, and tensors enter by DLPack. Addresses cannot be dereferenced on the
host, streams are asynchronous, and what a real device would punish is a violation (docs/simulator.md). Only what the tests need is there: empty, copies, views, streams, capture.
"""
import ctypes
import threading

import torch
from torch.utils import backend_registration

NAME = "emu"
_DL_EXT_DEVICE = 12  # PyTorch's PrivateUse1 in DLPack
_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 1, 2, 3


class _DlDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class _DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _DlDevice), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DlManaged(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DlManaged))
_DlManaged._fields_ = [("tensor", _DlTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Library:
    """libslipstream's own device calls, which play the vendor's driver here."""

    def __init__(self, path):
        self._lib = ctypes.CDLL(path)
        self._lib.slip_status_format.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        self._lib.slip_status_free.argtypes = [ctypes.c_void_p]
        self._lib.slip_sim_violation_count.restype = ctypes.c_uint64
        self._lib.slip_sim_violation.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
        self._lib.slip_sim_lifecycle_calls.restype = ctypes.c_uint64
        platform = ctypes.c_void_p()
        self.call("slip_platform_find", b"sim", ctypes.byref(platform))
        self.platform = platform

    def call(self, name, *arguments):
        function = getattr(self._lib, name)
        function.restype = ctypes.c_void_p
        status = function(*arguments)
        if status:
            text = ctypes.create_string_buffer(2048)
            self._lib.slip_status_format(status, text, len(text))
            self._lib.slip_status_free(status)
            raise RuntimeError(f"{name}: {text.value.decode()}")

    def violations(self):
        found = []
        for index in range(min(64, self._lib.slip_sim_violation_count())):
            text = ctypes.create_string_buffer(1024)
            self._lib.slip_sim_violation(index, text, len(text))
            found.append(text.value.decode())
        return found

    def lifecycle_calls(self):
        return self._lib.slip_sim_lifecycle_calls()


class Module:
    """torch.emu: what PyTorch and its users call on a device module."""

    def __init__(self, library):
        self._library = library
        self._local = threading.local()
        self._defaults = {}
        self._lock = threading.Lock()
        self._living = {}  # address of a managed tensor -> what it keeps
        self._deleter = _Deleter(self._delete)
        self.stream_questions = 0  # how often slipstream has asked

    # --- as PyTorch wants it
    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def device_count(self):
        return 2

    def current_device(self):
        return getattr(self._local, "device", 0)

    def set_device(self, index):
        self._library.call("slip_sim_set_device", ctypes.c_int32(index))
        self._local.device = index

    def manual_seed_all(self, seed):
        pass

    def _is_in_bad_fork(self):
        return False

    # --- streams and captures
    def new_stream(self, index=None):
        stream = ctypes.c_void_p()
        self._library.call("slip_stream_create", self._library.platform, ctypes.c_int32(self.current_device() if index is None else index), ctypes.byref(stream))
        return stream.value

    def destroy_stream(self, stream):
        self._library.call("slip_stream_destroy", self._library.platform, ctypes.c_void_p(stream))

    def current_stream(self, index=None):
        index = self.current_device() if index is None else index
        chosen = getattr(self._local, "streams", {}).get(index)
        if chosen is not None:
            return chosen
        with self._lock:
            if index not in self._defaults:
                self._defaults[index] = self.new_stream(index)
            return self._defaults[index]

    def set_stream(self, stream, index=None):
        streams = self._local.__dict__.setdefault("streams", {})
        streams[self.current_device() if index is None else index] = stream

    def synchronize(self):
        self._library.call("slip_stream_synchronize", self._library.platform, ctypes.c_void_p(self.current_stream()))

    def capture_begin(self, mode=0):
        self._library.call("slip_stream_capture_begin", self._library.platform, ctypes.c_void_p(self.current_stream()), ctypes.c_uint32(mode))

    def capture_end(self):
        graph = ctypes.c_void_p()
        self._library.call("slip_stream_capture_end", self._library.platform, ctypes.c_void_p(self.current_stream()), ctypes.byref(graph))
        return graph

    def replay(self, graph):
        self._library.call("slip_graph_exec_launch", self._library.platform, graph, ctypes.c_void_p(self.current_stream()))

    def destroy_graph(self, graph):
        self._library.call("slip_graph_exec_destroy", self._library.platform, graph)

    # --- memory
    def living(self):
        with self._lock:
            return len(self._living)

    def _delete(self, managed):
        with self._lock:
            entry = self._living.pop(ctypes.addressof(managed.contents), None)
        if entry is None or not entry[0].tensor.data:
            return
        # A device's allocator makes the device current for the moment, as PyTorch's do.
        index, before = entry[0].tensor.device.index, self.current_device()
        if index != before:
            self.set_device(index)
        self._library.call("slip_memory_free", self._library.platform, ctypes.c_int32(index), ctypes.c_void_p(entry[0].tensor.data))
        if index != before:
            self.set_device(before)

    def empty(self, shape, dtype, index=None):
        """A contiguous tensor in the simulator's memory, made the way any library hands one to PyTorch."""
        index = self.current_device() if index is None else index
        shape = tuple(int(s) for s in shape)
        size = torch.empty((), dtype=dtype).element_size()
        for extent in shape:
            size *= extent
        memory = ctypes.c_void_p()
        self._library.call("slip_memory_allocate", self._library.platform, ctypes.c_int32(index), ctypes.c_uint64(size), ctypes.byref(memory))
        code = 2 if dtype.is_floating_point else 6 if dtype == torch.bool else 0 if dtype.is_signed else 1
        code = 4 if dtype == torch.bfloat16 else code
        managed = _DlManaged()
        dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        managed.tensor = _DlTensor(memory.value, _DlDevice(_DL_EXT_DEVICE, index), len(shape), code, 8 * torch.empty((), dtype=dtype).element_size(), 1, dims, None, 0)
        managed.deleter = self._deleter
        with self._lock:
            self._living[ctypes.addressof(managed)] = (managed, dims)
        return torch.utils.dlpack.from_dlpack(ctypes.pythonapi.PyCapsule_New(ctypes.addressof(managed), b"dltensor", None))

    def _address(self, tensor):
        return tensor.untyped_storage().data_ptr() + tensor.storage_offset() * tensor.element_size()

    def _copy_async(self, target, source, size, kind):
        self._library.call("slip_memory_copy_async", self._library.platform, ctypes.c_void_p(self.current_stream()), ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_uint64(size),
                           ctypes.c_uint32(kind))

    def copy(self, source, target, non_blocking=False):
        if source.shape != target.shape or source.dtype != target.dtype or not source.is_contiguous() or not target.is_contiguous():
            raise RuntimeError("the emulated accelerator copies equal contiguous tensors only")
        kind = {("cpu", NAME): _HOST_TO_DEVICE, (NAME, "cpu"): _DEVICE_TO_HOST}.get((source.device.type, target.device.type), _DEVICE_TO_DEVICE)
        size = source.numel() * source.element_size()
        if size:
            self._copy_async(self._address(target), self._address(source), size, kind)
            self.synchronize()
        return target


_installed = None


def install(library_path):
    """Makes the device; returns torch.emu. Once a process: PyTorch has one PrivateUse1."""
    global _installed
    if _installed is not None:
        return _installed[0]
    module = Module(Library(library_path))
    backend_registration._setup_privateuseone_for_python_backend(NAME, module)
    kernels = torch.library.Library("aten", "IMPL")
    cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

    def index_of(device):
        return module.current_device() if device is None or torch.device(device).index is None else torch.device(device).index

    def empty(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
        return module.empty(size, dtype or torch.get_default_dtype(), index_of(device))

    def empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
        count = 1 + sum((extent - 1) * step for extent, step in zip(size, stride)) if 0 not in size else 0
        return module.empty((count,), dtype or torch.get_default_dtype(), index_of(device)).as_strided(size, stride)

    kernels.impl("empty.memory_format", empty, "PrivateUse1")
    kernels.impl("empty_strided", empty_strided, "PrivateUse1")
    kernels.impl("_copy_from", module.copy, "PrivateUse1")
    # These touch no memory: PyTorch's own kernels for the cpu do, whatever the device.
    for name in ("as_strided", "view"):
        overload = getattr(torch.ops.aten, name).default
        kernels.impl(name, lambda *args, _op=overload: _op.redispatch(cpu, *args), "PrivateUse1")
    _installed = (module, kernels)
    return module
