# SPDX-License-Identifier: Apache-2.0
"""CallSignature and CallFrame: one call with real tensors, checked completely before the framework is asked for a device or a stream."""
import ctypes
import numbers
from typing import Any, List, Optional, Tuple

import torch

from slipstream import _core, _torch

from . import devices, errors

_torch.exceptions(errors.make)

_DTYPES = {
    torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.bool: "bool",
}
for _name, _text in (("uint16", "u16"), ("uint32", "u32"), ("uint64", "u64"), ("float8_e4m3fn", "f8e4m3fn"), ("float8_e5m2", "f8e5m2"), ("float8_e8m0fnu", "f8e8m0"),
                     ("float4_e2m1fn_x2", "f4e2m1x2")):
    if hasattr(torch, _name):
        _DTYPES[getattr(torch, _name)] = _text
DTYPES = {text: dtype for dtype, text in _DTYPES.items()}

_CTYPES = {
    "bool": (ctypes.c_bool,), "i8": (ctypes.c_int8,), "i16": (ctypes.c_int16,), "i32": (ctypes.c_int32,), "i64": (ctypes.c_int64, ctypes.c_longlong), "u8": (ctypes.c_uint8,),
    "u16": (ctypes.c_uint16,), "u32": (ctypes.c_uint32,), "u64": (ctypes.c_uint64, ctypes.c_ulonglong), "f32": (ctypes.c_float,), "f64": (ctypes.c_double,),
}
_NUMPY = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16",
          "bf16": "bfloat16", "f32": "float32", "f64": "float64"}

REQUIRES_GRAD, CONJ, NEG, FAKE = 1, 2, 4, 32
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def scalar(value: Any, dtype: str, where: str):
    """The Python value behind |value|, copied now. Typed boxes must be of the declared type; nothing is rounded to an integer, and no number is taken for a truth value."""
    kind = "bool" if dtype == "bool" else "float" if dtype in ("f16", "bf16", "f32", "f64") else "int"
    if isinstance(value, ctypes._SimpleCData):
        if not isinstance(value, _CTYPES.get(dtype, ())):
            raise errors.wrong_type(f"{where}: a {type(value).__name__}, expected {dtype}; pass a Python number, or the box of that type")
        return value.value
    numpy_type = getattr(getattr(value, "dtype", None), "name", None)
    if numpy_type is not None and not isinstance(value, torch.Tensor) and getattr(value, "shape", None) == ():
        if numpy_type != _NUMPY.get(dtype):
            raise errors.wrong_type(f"{where}: a NumPy {numpy_type}, expected {dtype}; pass a Python number, or numpy.{_NUMPY.get(dtype)}(...)")
        return float(value) if kind == "float" else value.item()
    if kind == "bool":
        if not isinstance(value, bool):
            raise errors.wrong_type(f"{where}: {type(value).__name__} {value!r}, expected a bool; pass True or False")
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real if kind == "float" else numbers.Integral):
        raise errors.wrong_type(f"{where}: {type(value).__name__} {value!r}, expected {dtype}; pass a Python {kind}")
    return float(value) if kind == "float" else int(value)


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether there is no memory behind |tensor|: meta and fake tensors, wrappers that tracing and functionalisation make."""
    if tensor.is_meta or torch._is_functional_tensor(tensor) or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return True
    if type(tensor) in _PLAIN:
        return False
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def _describe(tensor: Any, where: str, param, adapter: Optional[devices.DeviceAdapter]):
    """What the frame is built from; see python/src/torch/frame.c."""
    if not isinstance(tensor, torch.Tensor):
        raise errors.wrong_type(f"{where}: a {type(tensor).__name__}, expected a torch.Tensor of {param.dtype}")
    if tensor.is_nested:
        raise errors.invalid(f"{where}: a nested tensor, expected a dense one; pass its components one by one, or to_padded_tensor()")
    if tensor.layout != torch.strided:
        raise errors.invalid(f"{where}: a tensor of layout {tensor.layout}, expected a dense strided one; pass x.to_dense()")
    if tensor.is_quantized:
        raise errors.invalid(f"{where}: a quantised tensor, expected {param.dtype}; pass x.dequantize() or x.int_repr()")
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise errors.invalid(f"{where}: dtype {tensor.dtype} has no counterpart in slipstream, expected {param.dtype}; pass x.to({DTYPES.get(param.dtype)})")
    if is_fake(tensor):
        raise errors.invalid(f"{where}: a fake or meta tensor, or one that a transform of torch.func wraps, which has no memory; real calls take real tensors, and tracing calls the fake kernel")
    if torch.autograd.forward_ad._current_level >= 0 and torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
        raise errors.unsupported(f"{where}: a dual tensor, and the operator has no forward-mode derivative; pass torch.autograd.forward_ad.unpack_dual(x).primal")
    flags = (REQUIRES_GRAD if tensor.requires_grad else 0) | (CONJ if tensor.is_conj() else 0) | (NEG if tensor.is_neg() else 0)
    storage = tensor.untyped_storage()
    try:
        base = storage.data_ptr()
    except RuntimeError as reason:  # a subclass that wraps others
        raise errors.invalid(f"{where}: a {type(tensor).__name__}, whose memory PyTorch does not give ({reason}); pass the tensor inside") from None
    item = tensor.element_size()
    device = tensor.device
    platform, layout = "", _format(tensor, adapter)
    if adapter is not None and device.type == adapter.type:
        platform = adapter.platform
    elif device.type in ("cpu", "cuda"):
        platform = device.type
    return (dtype, tuple(tensor.shape), tuple(tensor.stride()), base, tensor.storage_offset() * item, storage.nbytes(), platform, device.index or 0, layout, flags, tensor)


def _format(tensor, adapter) -> int:
    """The vendor's storage format. Asked only where the platform has any."""
    if adapter is None or adapter.storage_format is None or tensor.device.type != adapter.type:
        return 2
    return adapter.storage_format(tensor)


class CallFrame:
    """One checked call. Immutable; keeps its tensors and their storages alive.

    :ivar tensors: ``(index in the signature, tensor)``, in signature order.
    :ivar scalars: ``(index in the signature, value)``, in signature order; copies.
    :ivar device: the device of all tensors.
    :ivar stream: the raw handle of the stream that was current when the frame was built, asked after every check.
    """

    __slots__ = ("tensors", "scalars", "device", "stream", "name", "_aliases", "_frame", "_storages", "_seen", "_adapter", "_kernel", "_written")

    def __init__(self, name, adapter, device, tensors, scalars, aliases, frame, kernel, written):
        self.name, self.device, self.tensors, self.scalars = name, device, tuple(tensors), tuple(scalars)
        self._aliases, self._frame, self._adapter, self._kernel = tuple(aliases), frame, adapter, kernel
        self._written = written
        self._storages = tuple(t.untyped_storage() for _, t in self.tensors)
        self._seen = tuple(self._look(t) for _, t in self.tensors)
        self.stream = self._ask()

    @staticmethod
    def _look(tensor):
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes(), tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())

    def _ask(self) -> int:
        current, stream = self._adapter.ask(self.device.index or 0)
        if current != (self.device.index or 0):
            raise errors.invalid(f"{self.name}: the current device is {self.device.type}:{current}, but the tensors are on {self.device}; call it with that device current")
        return stream

    def alias_result(self) -> Any:
        """The caller's own objects for the return aliases: None, one object, or a tuple."""
        if not self._aliases:
            return None
        return self._aliases[0] if len(self._aliases) == 1 else self._aliases

    def launch(self) -> Any:
        """Enqueues the call on the stream that is current now, and returns alias_result(). InvalidArgumentError if a tensor was resized, or its storage replaced, since."""
        if self._kernel is None:
            raise errors.invalid_state(f"{self.name}: this frame came from a CallSignature alone; build it with Operator.frame() to launch it")
        for (index, tensor), seen in zip(self.tensors, self._seen):
            if self._look(tensor) != seen:
                raise errors.invalid(f"{self.name}: parameter {index}: the tensor was resized or given another storage after the frame was built; build a new frame")
        owner = (self.tensors, self._storages) if self._adapter.hold else self
        kernel = self._kernel
        self._frame.launch(kernel.gate, kernel.callable.context.handle, kernel.callable.id, self._ask(), owner)
        # Autograd must learn that tensors change: one that was saved for a derivative would give wrong gradients in silence.
        torch.autograd.graph.increment_version([tensor for index, tensor in self.tensors if index in self._written])
        return self.alias_result()

    def __reduce_ex__(self, protocol):
        raise TypeError(f"the CallFrame of {self.name} holds addresses and a stream of this process, so it is neither copied nor pickled; build it from the arguments, where it is launched")

    def __repr__(self):
        return f"<slipstream.torch.CallFrame of {self.name}: {len(self.tensors)} tensors and {len(self.scalars)} scalars on {self.device}>"


class CallSignature:
    """The rules of a call with real tensors.

    :param signature: a slipstream.Signature, an Artifact, or the signature's text.
    :param name: for messages.
    """

    def __init__(self, signature, name: str = "call"):
        if isinstance(signature, str):
            signature = _core.Signature(signature)
        self.signature = getattr(signature, "signature", signature)
        self.name = name
        self._params = tuple(self.signature.params)
        self._returns = tuple(self.signature.returns)
        self._written = frozenset(i for i, p in enumerate(self._params) if p.direction in ("out", "inout"))
        self._nz = any(p.layout == "nz" for p in self._params)

    def where(self, index: int) -> str:
        param = self._params[index]
        return f"{self.name}: parameter {index} '{param.name}' ({param.direction})"

    def bind(self, *args: Any, device=None, _kernel=None) -> CallFrame:
        """Checks a call and makes its frame. |device| None: that of the first tensor. Nothing is copied, moved or made contiguous."""
        if len(args) != len(self._params):
            raise errors.wrong_type(f"{self.name}: {len(args)} arguments, expected {len(self._params)}: {', '.join(p.name for p in self._params)}; outputs are passed, too")
        tensors: List[Tuple[int, torch.Tensor]] = []
        scalars: List[Tuple[int, Any]] = []
        items: list = []
        if device is None:
            found = next((a.device for a, p in zip(args, self._params) if p.shape is not None and isinstance(a, torch.Tensor)), None)
            device = torch.device("cpu") if found is None or found.type == "meta" else found
        device = torch.device(device)
        adapter = devices.adapter_of(device.type)
        for index, (value, param) in enumerate(zip(args, self._params)):
            if param.shape is None:
                value = scalar(value, param.dtype, self.where(index))
                scalars.append((index, value))
                items.append((param.dtype, value))
            else:
                items.append(_describe(value, self.where(index), param, adapter))
                tensors.append((index, value))
        frame = _torch.Frame(self.signature.handle, self.name, adapter.platform, device.index or 0, tuple(items), torch.is_grad_enabled(), adapter.physical if self._nz else None)
        return CallFrame(self.name, adapter, device, tensors, scalars, [args[i] for i in self._returns], frame, _kernel, self._written)

    def __reduce__(self):
        return CallSignature, (str(self.signature), self.name)

    def __repr__(self):
        return f"<slipstream.torch.CallSignature {self.name}{self.signature}>"
