# SPDX-License-Identifier: Apache-2.0
"""The import guard: runs code in a fresh interpreter in which packages of vendors and frameworks are out of bounds.

A finder in front of sys.meta_path sees each request for a blocked name, by whatever way (import, importlib, __import__, find_spec), and writes it down
before it refuses. The verdict is what was written down, not whether an error reached anybody. No assert: it works under -O and -OO.
"""
import subprocess
import sys

BLOCKED = ("torch", "torch_npu", "torchvision", "numpy", "ml_dtypes", "cupy", "jax", "jaxlib", "tensorflow", "acl", "tvm", "tvm_ffi", "cuda", "pynvml", "triton",
           "onnxruntime", "transformers")
REQUESTED = 90  # exit status: something blocked was asked for
CODE_FAILED = 91

PRELUDE = """
import os, sys
class Guard:
    blocked = frozenset(%r)
    asked = []
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.blocked:
            self.asked.append(name)
            raise ModuleNotFoundError("%%s is out of bounds here" %% name, name=name)
        return None
guard = Guard()
present = sorted(m for m in sys.modules if m.partition(".")[0] in guard.blocked)
sys.meta_path.insert(0, guard)
failed = False
try:
    exec(compile(%r, "guarded", "exec"), {"__name__": "guarded"})
except BaseException:
    import traceback
    traceback.print_exc()
    failed = True
present += sorted(m for m in sys.modules if m.partition(".")[0] in guard.blocked)
if guard.asked or present:
    print("asked for:", guard.asked, "present:", present)
sys.stdout.flush()
sys.stderr.flush()
os._exit(%d if guard.asked or present else %d if failed else 0)
"""


def run(code, flags=(), blocked=BLOCKED, timeout=600):
    """Runs code under guard; returns the finished process."""
    text = PRELUDE % (tuple(blocked), code, REQUESTED, CODE_FAILED)
    return subprocess.run([sys.executable, "-I", *flags, "-c", text], capture_output=True, text=True, timeout=timeout, check=False, cwd="/")
