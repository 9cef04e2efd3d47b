# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch made from slipstream's artifacts.

    import slipstream.torch
    slipstream.torch.init()
    axpy = slipstream.torch.load("axpy.slipc")
    axpy(x, y, 2.0)  # or torch.ops.slip.axpy(x, y, 2.0)

Importing this registers nothing, opens nothing and imports no vendor's plug-in; init() opens, load() and register() register.
"""
from .devices import DeviceAdapter, register_device
from .ops import Operator, close, init, load, register
from .registration import RegistrationSignature
from .signature import CallFrame, CallSignature

__all__ = ["CallFrame", "CallSignature", "DeviceAdapter", "Operator", "RegistrationSignature", "close", "init", "load", "register", "register_device"]
