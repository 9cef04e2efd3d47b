# SPDX-License-Identifier: Apache-2.0
"""Python calls against C launches, in turns, in one process. See README.md."""
import ctypes
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import repeat

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "python"))

import build_foreign  # noqa: E402
import numpy as np  # noqa: E402
import programs  # noqa: E402
import slipstream as slip  # noqa: E402

BATCHES, CALLS, COUNT = 61, 2000, 4


def baseline(folder):
    library = os.path.join(folder, "baseline.so")
    lib = os.path.dirname(slip.library_path())
    subprocess.run(["gcc", "-std=gnu17", "-O3", "-fPIC", "-shared", "-I" + slip.include_path(), os.path.join(HERE, "baseline.c"), "-o", library,
                    slip.library_path(), "-Wl,-rpath," + lib], check=True)
    function = ctypes.CDLL(library).bench_launches
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)] + [ctypes.c_int64] * 4
    return function


def loop(f, args):
    """Nanoseconds a call."""
    if len(args) == 3:
        a, b, c = args
        start = time.perf_counter_ns()
        for _ in repeat(None, CALLS):
            f(a, b, c)
        return (time.perf_counter_ns() - start) / CALLS
    # Spelt out, as a person writes a call: no tuple is unpacked.
    a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, q, r, s, t = args
    start = time.perf_counter_ns()
    for _ in repeat(None, CALLS):
        f(a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
    return (time.perf_counter_ns() - start) / CALLS


def tvm_function(folder):
    """A C function that does nothing, as tvm-ffi calls it. None where tvm-ffi is not installed."""
    try:
        import tvm_ffi
    except ImportError:
        return None
    source, library = os.path.join(folder, "nothing.c"), os.path.join(folder, "nothing.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <stdint.h>\nint __tvm_ffi_nothing(void *self, const void *args, int32_t count, void *result) {\n"
                   "  (void)self, (void)args, (void)count, (void)result;\n  return 0;\n}\n")
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", source, "-o", library], check=True)
    return tvm_ffi.load_module(library).nothing


def torch_makers():
    """Tensors of PyTorch where it is installed; with autograd off each is asked one question less."""
    try:
        import torch
    except ImportError:
        return {}
    return {"torch": lambda: torch.zeros(COUNT)}


def no_grad(meter):
    import torch

    def run():
        with torch.no_grad():
            return meter()
    return run


def main():
    with tempfile.TemporaryDirectory() as folder, slip.kernel.open(single_thread=True) as context:
        foreign, launches, nothing = build_foreign.build(folder), baseline(folder), tvm_function(folder)
        three = context.prepare(programs.make(folder, "three", "(in x: f32[N], y: f32[N], out z: f32[N]) -> (z)", "(void)o; (void)args;"))
        many = context.prepare(programs.many(folder))
        makers = {"exchange": lambda: foreign.Plain(COUNT), "numpy": lambda: np.zeros(COUNT, np.float32), "tensor": lambda: slip.empty(COUNT), **torch_makers()}
        subjects, meters = {}, {}
        for name, f, tensors, scalars in (("call3", three, 3, 0), ("call19", many, 12, 7)):
            memory = [np.zeros(COUNT, np.float32) for _ in range(tensors)]
            pointers = (ctypes.c_void_p * tensors)(*[m.ctypes.data for m in memory])
            subjects[name] = (memory, pointers)
            signature = f.signature
            meters[name, "c"] = lambda f=f, s=signature, p=pointers, t=tensors, n=scalars: launches(context.handle, f.id, s.handle, p, COUNT, t, n, CALLS)
            for kind, make in makers.items():
                args = tuple(make() for _ in range(tensors)) + tuple(float(i) for i in range(scalars))
                meters[name, kind] = lambda f=f, a=args: loop(f, a)
                if nothing and kind == "exchange":
                    meters[name, "tvmffi"] = lambda a=args: loop(nothing, a)
                if kind == "torch":
                    meters[name, "torch_no_grad"] = no_grad(meters[name, kind])
                    if nothing:
                        meters[name, "tvmffi_torch"] = lambda a=args: loop(nothing, a)
        times = {key: [] for key in meters}
        gc.disable()
        for meter in meters.values():
            meter()
        for _ in range(BATCHES):
            for key, meter in meters.items():
                times[key].append(meter())
        median = {key: statistics.median(values) for key, values in times.items()}
        for values in times.values():
            if min(values) <= 0:
                sys.exit("bench/python: a launch failed")
        before = context.stats()
        if before.refused or before.faulted:
            sys.exit("bench/python: %r" % (before,))
    result = {}
    for name in ("call3", "call19"):
        c = median[name, "c"]
        result[name + "_over_c_ns"] = median[name, "exchange"] - c
        result[name + "_numpy_over_c_ns"] = median[name, "numpy"] - c
        result[name + "_tensor_over_c_ns"] = median[name, "tensor"] - c
        result[name + "_c_ns"] = c
        result[name + "_ns"] = median[name, "exchange"]
        for kind in ("torch", "torch_no_grad"):
            if (name, kind) in median:
                result["%s_%s_over_c_ns" % (name, kind)] = median[name, kind] - c
        for kind in ("tvmffi", "tvmffi_torch"):
            if (name, kind) in median:
                result["%s_%s_ns" % (kind, name)] = median[name, kind]
        print("%-7s C %6.0f ns   exchange table %6.0f   Tensor %6.0f   NumPy %6.0f   tvm-ffi, nothing checked %s" % (
            name, c, median[name, "exchange"], median[name, "tensor"], median[name, "numpy"],
            "%6.0f" % median[name, "tvmffi"] if (name, "tvmffi") in median else "not installed"))
        if (name, "torch") in median:
            print("        torch.Tensor %6.0f, under no_grad %6.0f; by tvm-ffi %s" % (
                median[name, "torch"], median[name, "torch_no_grad"], "%6.0f" % median[name, "tvmffi_torch"] if nothing else "not installed"))
    print("RESULT " + " ".join("%s=%.0f" % item for item in result.items()))


if __name__ == "__main__":
    main()
