# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each family of status codes, all derived from SlipError (a RuntimeError).

`.code` is the number of the status ("-4"), `.name` its name ("INVALID_ARGUMENT"), `.platform_code` the vendor's own number beside DEVICE or errno
beside IO. An instance made in Python has None for all three. `slip explain NAME` tells what a code means and what to do.
"""
from ._core import (ArgumentTypeError, BusyError, CancelledError, CapacityError, CaptureUnsupportedError, CompileError, ConflictError, CorruptError,
                    DeviceError, ForkedError, GraphError, IncompatibleError, InternalError, InvalidArgumentError, InvalidStateError, IoError,
                    ModeConflictError, NotFoundError, NotPreparedError, NotReadyError, OutOfMemoryError, PoisonedError, RecursiveError, SlipError,
                    TimedOutError, UnsupportedError)

__all__ = [
    "ArgumentTypeError", "BusyError", "CancelledError", "CapacityError", "CaptureUnsupportedError", "CompileError", "ConflictError", "CorruptError",
    "DeviceError", "ForkedError", "GraphError", "IncompatibleError", "InternalError", "InvalidArgumentError", "InvalidStateError", "IoError",
    "ModeConflictError", "NotFoundError", "NotPreparedError", "NotReadyError", "OutOfMemoryError", "PoisonedError", "RecursiveError", "SlipError",
    "TimedOutError", "UnsupportedError",
]
