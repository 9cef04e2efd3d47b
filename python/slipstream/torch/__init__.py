# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch made from slipstream's artifacts.

    import slipstream.torch
    slipstream.torch.init()
    axpy = slipstream.torch.load("axpy.slipc")
    axpy(x, y, 2.0)  # or torch.ops.slip.axpy(x, y, 2.0)

Importing this registers nothing, opens nothing and imports no vendor's plug-in; init() opens, load() and register() register.
"""
try:
    import torch as _torch_itself
except ImportError as missing:
    raise ImportError(f"slipstream.torch needs PyTorch 2.4 or later, which cannot be imported ({missing}); pip install torch") from missing
del _torch_itself

from .devices import DeviceAdapter, register_device
from .ops import Operator, close, init, load, register
from .registration import RegistrationSignature
from .signature import CallFrame, CallSignature

__all__ = ["CallFrame", "CallSignature", "DeviceAdapter", "Operator", "RegistrationSignature", "close", "init", "load", "register", "register_device"]
