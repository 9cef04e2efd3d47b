# SPDX-License-Identifier: Apache-2.0
"""Programs for the tests: manifest and C text from a signature and a body, compiled for this machine's target only."""
import json
import os

import slipstream as slip


def make(folder, name, signature, orchestration, kernel=None, body="", head=""):
    """Compiles a program of one orchestration body and at most one kernel; returns its Artifact."""
    source = os.path.join(folder, name + ".c")
    manifest = os.path.join(folder, name + ".json")
    with open(source, "w", encoding="utf-8") as file:
        file.write('#include "slip_program.h"\n%s\nvoid %s_run(slip_orch_t *o, const slip_oargs_t *args) {\n%s\n}\n' % (head, name, orchestration))
        if kernel:
            file.write("void %s_kernel(const slip_kargs_t *args, slip_block_t block) {\n(void)block;\n%s\n}\n" % (name, body))
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump({"slip": 1, "name": name, "contract": "kernel", "entry": {"name": name, "symbol": name + "_run", "signature": signature},
                   "kernels": [{"name": name + "_kernel", "signature": kernel}] if kernel else [], "sources": [name + ".c"]}, file)
    return slip.compile(manifest, os.path.join(folder, name + ".slipc"), targets=slip.device_info().target, replace=True, progress=False)


def task(name, tensors, scalars=0):
    """Orchestration text: one task of the kernel; tensors is a string of i (in), o (out) and u (inout)."""
    access = {"i": "slip_task_in", "o": "slip_task_out_existing", "u": "slip_task_inout"}
    lines = ["slip_task_builder_t task;", "slip_task_begin(&task, SLIP_KERNEL_%s_kernel, 1);" % name]
    lines += ["%s(&task, &args->tensors[%d]);" % (access[kind], i) for i, kind in enumerate(tensors)]
    lines += ["slip_task_scalar(&task, args->scalars[%d]);" % i for i in range(scalars)]
    return "\n".join(lines + ["slip_task_submit(o, &task);"])


def axpy(folder):
    """(in x: f32[N], inout y: f32[N], a: f32) -> (y)"""
    return make(folder, "axpy", "(in x: f32[N], inout y: f32[N], a: f32) -> (y)", task("axpy", "iu", 1), "(in x: f32[N], inout y: f32[N], a: f32)",
                "const float *x = args->tensors[0].data; float *y = args->tensors[1].data; const float a = slip_bits_as_f32(args->scalars[0]);\n"
                "for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) y[i] += a * x[i];")


SCALARS = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")


def scalars(folder):
    """Writes the bits of one scalar of each dtype."""
    names = ", ".join("%s_: %s" % (d, d) for d in SCALARS)
    return make(folder, "scalars", "(out bits: u64[13], %s) -> (bits)" % names, task("scalars", "o", 13), "(out bits: u64[13], %s)" % names,
                "uint64_t *bits = args->tensors[0].data;\nfor (int i = 0; i < 13; ++i) bits[i] = args->scalars[i];")


def copy(folder, dtype, rank):
    """(in x: dtype[A,...], out y: dtype[A,...]) -> (y), byte by byte."""
    dims = ",".join("ABCDE"[:rank])
    name = "copy_%s_%d" % (dtype, rank)
    # The size of an element is told by the compiler of the test, which knows the dtype.
    size = {"8": 1, "6": 2, "2": 4, "4": 8}[dtype[-1]] if dtype[0] in "iufb" and dtype not in ("bool",) and "f8" not in dtype else 1
    return make(folder, name, "(in x: %s[%s], out y: %s[%s]) -> (y)" % (dtype, dims, dtype, dims), task(name, "io"),
                "(in x: %s[%s], out y: %s[%s])" % (dtype, dims, dtype, dims),
                "const unsigned char *x = args->tensors[0].data; unsigned char *y = args->tensors[1].data;\nint64_t n = %d;\n"
                "for (int i = 0; i < %d; ++i) n *= args->tensors[0].dims[i];\nfor (int64_t i = 0; i < n; ++i) y[i] = x[i];" % (size, rank))


def pair(folder):
    """Two tensors, three returns, no work."""
    return make(folder, "pair", "(inout x: f32[N], inout y: f32[N]) -> (y, x, y)", "(void)o; (void)args;")


def many(folder):
    """19 arguments, no work."""
    tensors = ", ".join("inout x%d: f32[N]" % i for i in range(12))
    return make(folder, "many", "(%s, %s) -> (x11)" % (tensors, ", ".join("s%d: f32" % i for i in range(7))), "(void)o; (void)args;")


def wait(folder):
    """Runs until another thread sets flag[0], at most about as long as 2^33 looks; then done[0] says whether it saw it."""
    return make(folder, "wait", "(in flag: i32[1], out done: i32[1]) -> (done)", task("wait", "io"), "(in flag: i32[1], out done: i32[1])",
                "const volatile int32_t *flag = args->tensors[0].data; int32_t *done = args->tensors[1].data;\n"
                "for (uint64_t i = 0; i < (1ull << 33) && !*flag; ++i) continue;\ndone[0] = *flag ? 1 : -1;")


def hold(folder):
    """The same, for minutes if need be: runs until it is told."""
    return make(folder, "hold", "(in flag: i32[1], out done: i32[1]) -> (done)", task("hold", "io"), "(in flag: i32[1], out done: i32[1])",
                "const volatile int32_t *flag = args->tensors[0].data; int32_t *done = args->tensors[1].data;\n"
                "for (uint64_t i = 0; i < (1ull << 40) && !*flag; ++i) continue;\ndone[0] = *flag ? 1 : -1;")


def fail(folder):
    """Fails on purpose if which is not 0."""
    return make(folder, "fail", "(inout y: f32[N], which: i32) -> (y)", 'if (args->scalars[0]) o->api->fail(o, (int32_t)args->scalars[0], "as wanted");')


def scale(folder):
    """(in x: f32[N], out y: f32[N], a: f32) -> (y): y = a x"""
    signature = "(in x: f32[N], out y: f32[N], a: f32)"
    return make(folder, "scale", signature + " -> (y)", task("scale", "io", 1), signature,
                "const float *x = args->tensors[0].data; float *y = args->tensors[1].data; const float a = slip_bits_as_f32(args->scalars[0]);\n"
                "for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) y[i] = a * x[i];")


def parts(folder):
    """Two outputs that are returned in another order, one of them twice, and one that is not."""
    signature = "(in x: f32[N], out twice: f32[N], out first: f32[1], out hidden: f32[N])"
    return make(folder, "parts", signature + " -> (first, twice, first)", task("parts", "iooo"), signature,
                "const float *x = args->tensors[0].data; float *twice = args->tensors[1].data, *hidden = args->tensors[3].data;\n"
                "for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) { twice[i] = 2 * x[i]; hidden[i] = -x[i]; }\n"
                "((float *)args->tensors[2].data)[0] = x[0];")


def lazy(folder):
    """Leaves its output as it was."""
    return make(folder, "lazy", "(in x: f32[N], out y: f32[N]) -> (y)", "(void)o; (void)args;")


def nameless(folder):
    """Outputs whose dims no other argument gives."""
    return make(folder, "nameless", "(in x: f32[N], out y: f32[M], out z: f32[?]) -> (y, z)", "(void)o; (void)args;")


def options(folder):
    """Parameters with the names of options."""
    return make(folder, "options", "(inout block: f32[N], zero_outputs: i32) -> (block)", "(void)o; (void)args;")


def program(folder, name, *args):
    """The program `name` under the program contract, in the folder `program`."""
    folder = os.path.join(folder, "program")
    os.makedirs(folder, exist_ok=True)
    stem = ALL[name](folder, *args).path[:-len(".slipc")]
    return slip.compile(stem + ".json", stem + ".slipc", targets=slip.device_info().target, contract="program", replace=True, progress=False)


ALL = {"copy": copy, "scale": scale, "parts": parts, "lazy": lazy, "nameless": nameless, "options": options, "axpy": axpy, "scalars": scalars, "pair": pair, "many": many, "wait": wait, "hold": hold, "fail": fail}
