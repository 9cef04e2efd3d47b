# SPDX-License-Identifier: Apache-2.0
"""Tensor.numpy(). Imports NumPy when it is called."""
from typing import Any

from ._core import Tensor, UnsupportedError

# Types without a buffer format: carrier, name in ml_dtypes.
_CARRIED = {"bf16": ("u16", "bfloat16"), "f8e4m3fn": ("u8", "float8_e4m3fn"), "f8e5m2": ("u8", "float8_e5m2"), "f8e8m0": ("u8", "float8_e8m0fnu")}


def to_numpy(tensor: Tensor) -> Any:
    """See Tensor.numpy()."""
    import numpy
    if not tensor.device.startswith("cpu"):
        tensor = tensor.to_host()
    if tensor.dtype not in _CARRIED:
        return numpy.asarray(tensor)
    carrier, name = _CARRIED[tensor.dtype]
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError("%s arrays of NumPy need the package ml_dtypes; install it, or take slipstream.Tensor(x, dtype=%r)" % (tensor.dtype, carrier)) from None
    return numpy.asarray(Tensor(tensor, dtype=carrier)).view(getattr(ml_dtypes, name))
