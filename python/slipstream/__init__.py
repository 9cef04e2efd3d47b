# SPDX-License-Identifier: Apache-2.0
"""Slipstream: compiled, multi-task kernels as asynchronous operators on borrowed device, stream and memory.

    import slipstream as slip

    artifact = slip.compile("axpy.json")          # or slip.load("axpy.slipc")
    with slip.kernel.open() as context:
        axpy = context.prepare(artifact)
        axpy(x, y, 2.0)                            # NumPy, PyTorch or any DLPack tensors

kernel is for programs with a framework that owns the device; Worker owns it itself, where there is none.

Importing does nothing but define names: no device is asked for, no process mode claimed, no other package imported.
"""
from . import kernel
from ._compile import compile
from ._core import (INLINE, Artifact, Diagnostic, Event, GraphExec, KernelInfo, Param, PlatformInfo, Program, Run, Signature, Stats, Stream, Tensor, Worker,
                    WorkerStats, WorkerTensor, __version__, device_count, device_info, empty, from_dlpack, library_path, load, platforms, process_mode)
from ._paths import include_path, slip_path
from .exceptions import *  # noqa: F403
from .exceptions import __all__ as _errors

__all__ = [
    "INLINE", "Artifact", "Diagnostic", "Event", "GraphExec", "KernelInfo", "Param", "PlatformInfo", "Program", "Run", "Signature", "Stats", "Stream", "Tensor",
    "Worker", "WorkerStats", "WorkerTensor", "compile", "device_count", "device_info", "empty", "from_dlpack", "include_path", "kernel", "library_path", "load",
    "platforms", "process_mode", "slip_path",
    *_errors,
]
