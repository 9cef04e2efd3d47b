# SPDX-License-Identifier: Apache-2.0
"""PyTorch's devices and what they are to slipstream.

An adapter answers what only the framework knows: which platform a device type is, what its current device and stream are, how a tensor is laid out. Nothing is asked before a call needs
it, and nothing is remembered between calls.
"""
from typing import Callable, Dict, NamedTuple, Optional, Tuple

import torch

from slipstream import _torch

from . import errors, locks

STREAM_INLINE, STREAM_CUDA, STREAM_ASKED = 0, 1, 2


class DeviceAdapter(NamedTuple):
    """What slipstream knows of one of PyTorch's device types."""

    type: str  # PyTorch's name: "cpu"
    platform: str  # slipstream's name: "cpu"
    key: str  # dispatch key of dense kernels
    stream: int = STREAM_ASKED
    current: Optional[Callable[[int], Tuple[int, int]]] = None  # device index -> (current device's index, that device's current raw stream)
    hold: bool = False  # keep tensors until the device is done, because their release is not ordered by the stream
    storage_format: Optional[Callable[[torch.Tensor], int]] = None  # 2: ND, 0: NCHW, 29: NZ. None: always ND
    physical: Optional[Callable[[torch.Tensor], Tuple[int, ...]]] = None  # dims of the blocked layout of an NZ tensor

    def ask(self, index: int) -> Tuple[int, int]:
        """Current device and raw stream, asked now."""
        if self.stream == STREAM_INLINE:
            return 0, 1
        if self.stream == STREAM_CUDA:
            # PyTorch's 0 is CUDA's legacy default stream, which a launch wants by its name.
            return torch.cuda.current_device(), torch.cuda.current_stream(index).cuda_stream or 1
        return self.current(index)


def _npu() -> DeviceAdapter:
    from . import npu

    return npu.adapter()


_BUILTIN = {
    "cpu": lambda: DeviceAdapter("cpu", "cpu", "CPU", STREAM_INLINE),
    "cuda": lambda: DeviceAdapter("cuda", "cuda", "CUDA", STREAM_CUDA),
    "npu": _npu,
}
_adapters: Dict[str, DeviceAdapter] = vars(_torch).setdefault("adapters", {})  # a reload of this module finds them again
_lock = locks.ForkLock()


def register_device(type: str, platform: str, current: Callable[[int], Tuple[int, int]], *, hold: bool = True, storage_format=None, physical=None) -> None:
    """Tells slipstream about a PrivateUse1 backend of PyTorch.

    :param type: the backend's name, as given to ``torch.utils.rename_privateuse1_backend``.
    :param platform: slipstream's platform for it.
    :param current: called at every launch, after all checks, with the device index of the tensors; returns the index of the current device and the raw handle of that device's
        current stream. It must not synchronise.
    :param hold: whether to keep tensors alive until the device is done with them. False only if the allocator orders the release of memory by the stream it was used on.

    Any thread. Raises InvalidArgumentError for cpu, cuda and meta, and ConflictError if the type is known with other answers.
    """
    if type in ("cpu", "cuda", "meta"):
        raise errors.invalid(f"device type '{type}' is PyTorch's own; register a PrivateUse1 backend's name")
    adapter = DeviceAdapter(type, platform, "PrivateUse1", STREAM_ASKED, current, hold, storage_format, physical)
    with _lock:
        known = _adapters.get(type)
        if known is not None and known != adapter:
            raise errors.conflict(f"device type '{type}' is registered already, for platform '{known.platform}' and with other functions")
        _adapters[type] = adapter


def adapter_of(type: str) -> DeviceAdapter:
    """The adapter of a device type; UnsupportedError if there is none."""
    with _lock:
        if type not in _adapters:
            if type not in _BUILTIN:
                raise errors.unsupported(f"device type '{type}' is unknown to slipstream; call slipstream.torch.register_device() for it, or move the tensors to the cpu")
            _adapters[type] = _BUILTIN[type]()
        return _adapters[type]


def resolve(device) -> torch.device:
    """A device with an index. None: PyTorch's default device."""
    device = torch.get_default_device() if device is None else torch.device(device)
    if device.index is not None:
        return device
    if device.type == "cpu":
        return torch.device("cpu", 0)
    return torch.device(device.type, adapter_of(device.type).ask(0)[0])
