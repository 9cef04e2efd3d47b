# SPDX-License-Identifier: Apache-2.0
"""What torch_npu knows of a tensor on Ascend: format, physical shape, raw stream, current device.

torch_npu is neither imported by importing this module nor by making the adapter, only by the first question. The questions are the functions of `Queries`, and nothing else here touches
torch_npu: tests replace them. Names are those of torch_npu 2.9 and later.
"""
from typing import Tuple

import torch

from . import errors
from .devices import STREAM_ASKED, DeviceAdapter

FORMAT_NCHW, FORMAT_ND, FORMAT_NZ = 0, 2, 29
_C0_BYTES = 32  # a fractal block is 16 rows of 32 bytes


class Queries:
    """The boundary to torch_npu. None of these synchronises or drains the task queue."""

    @staticmethod
    def _torch_npu():
        try:
            import torch_npu
        except ImportError as missing:
            raise errors.unsupported(f"tensors on an npu need torch_npu, which cannot be imported ({missing}); install the version that belongs to PyTorch {torch.__version__}") from None
        return torch_npu

    @classmethod
    def current_device(cls) -> int:
        return cls._torch_npu()._C._npu_getDevice()

    @classmethod
    def raw_stream(cls, device: int) -> int:
        """The native stream. The plain getter waits until torch_npu's task queue is empty; this one does not."""
        getter = getattr(cls._torch_npu()._C, "_npu_getCurrentRawStreamNoWait", None)
        if getter is None:
            raise errors.unsupported("this torch_npu has no _npu_getCurrentRawStreamNoWait, and the getter that waits would synchronise at every call; install a newer torch_npu")
        return int(getter(device))

    @classmethod
    def storage_format(cls, tensor: torch.Tensor) -> int:
        return int(cls._torch_npu().get_npu_format(tensor))

    @classmethod
    def storage_elements(cls, tensor: torch.Tensor) -> int:
        """Elements of the physical layout."""
        return int(cls._torch_npu().get_storage_size(tensor))


queries = Queries


def storage_format(tensor: torch.Tensor) -> int:
    """ND, NCHW or NZ; others are refused by name."""
    answer = queries.storage_format(tensor)
    if answer not in (FORMAT_NCHW, FORMAT_ND, FORMAT_NZ):
        raise errors.invalid(f"the tensor has Ascend's format number {answer}, expected ND (2), NCHW (0) or NZ (29); pass torch_npu.npu_format_cast(x, 2)")
    return answer


def physical_shape(tensor: torch.Tensor) -> Tuple[int, ...]:
    """Dims of the blocked layout of an NZ matrix: (..., N/C0, M/16, 16, C0), checked against what torch_npu says the storage holds."""
    shape = tuple(tensor.shape)
    if len(shape) < 2:
        raise errors.invalid(f"NZ is a layout of matrices, but the tensor has shape {list(shape)}")
    c0 = _C0_BYTES // tensor.element_size()
    rows, columns = shape[-2], shape[-1]
    dims = shape[:-2] + (-(-columns // c0), -(-rows // 16), 16, c0)
    expected = 1
    for dim in dims:
        expected *= dim
    found = queries.storage_elements(tensor)
    if found != expected:
        raise errors.invalid(f"the NZ storage holds {found} elements, but shape {list(shape)} in blocks of 16 x {c0} takes {expected}; pass a freshly cast tensor, not a view")
    return dims


def current(index: int) -> Tuple[int, int]:
    return queries.current_device(), queries.raw_stream(index)


def adapter() -> DeviceAdapter:
    # torch_npu's allocator orders the release of memory by the stream.
    return DeviceAdapter("npu", "ascend", "PrivateUse1", STREAM_ASKED, current, False, storage_format, physical_shape)
