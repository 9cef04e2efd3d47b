# SPDX-License-Identifier: Apache-2.0
"""Importing and reloading registers nothing and asks for no vendor's plug-in, however the interpreter optimises."""
import pytest
from test_process import passed

# A finder in front of all others: what it sees is an attempt, whoever swallows the error.
GUARD = """
import importlib, importlib.abc, sys
VENDORS = {"torch_npu", "torch_xla", "torch_musa", "torch_mlu", "habana_frameworks", "intel_extension_for_pytorch", "triton", "cupy", "pycuda", "acl"}
class Guard(importlib.abc.MetaPathFinder):
    attempts = []
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in VENDORS:
            self.attempts.append(name)
            raise ImportError(f"{name} is blocked by the import guard")
        return None
import torch  # what PyTorch itself looks for is its own affair
operators = set(torch._C._dispatch_get_all_op_names())
guard = Guard()
sys.meta_path.insert(0, guard)
"""
UNTOUCHED = """
if set(torch._C._dispatch_get_all_op_names()) != operators: raise SystemExit("something was registered")
if slipstream.process_mode() != "unclaimed": raise SystemExit("a mode was claimed")
if guard.attempts: raise SystemExit(f"asked for {guard.attempts}")
print("ok")
"""
MODES = [(), ("-O",), ("-OO",)]


@pytest.mark.parametrize("options", MODES)
def test_import_reload_metadata_and_schemas(fresh, options):
    assert "ok" in passed(fresh(GUARD + """
import slipstream, slipstream.torch as st
import slipstream.torch.npu, slipstream.torch.registration, slipstream.torch.devices, slipstream.torch.ops, slipstream.torch.signature, slipstream.torch.transforms
artifact = slipstream.load(AXPY)
signature = st.RegistrationSignature(artifact)
if signature.schema != "(Tensor x, Tensor(a1!) y, float a) -> ()": raise SystemExit(signature.schema)
y = torch.empty(3, device="meta")
if signature.fake(torch.empty(3, device="meta"), y, 1.0) is not y: raise SystemExit("another object")
st.CallSignature(artifact).bind(torch.ones(2), torch.zeros(2), 1.0)
for module in (slipstream.torch.registration, slipstream.torch.npu, slipstream.torch.transforms, slipstream.torch.ops, slipstream.torch, slipstream):
    importlib.reload(module)
""" + UNTOUCHED, *options, prelude=False))


@pytest.mark.parametrize("options", MODES)
def test_the_guard_sees_swallowed_attempts(fresh, options):
    """Negative controls: without them the tests above could pass for the wrong reason."""
    done = fresh(GUARD.replace("import torch  #", "import importlib.util, torch  #") + """
import slipstream
for attempt in ("import torch_npu", "importlib.import_module('torch_npu')", "__import__('torch_npu.npu')", "from triton import language", "importlib.util.find_spec('torch_npu')"):
    before = len(guard.attempts)
    try:
        exec(attempt)
    except ImportError:
        pass
    if len(guard.attempts) != before + 1: raise SystemExit("not seen: " + attempt)
""" + UNTOUCHED, *options, prelude=False)
    assert done.returncode != 0 and "asked for ['torch_npu', 'torch_npu', 'torch_npu', 'triton', 'torch_npu']" in done.stderr, done.stdout + done.stderr


def test_the_guard_sees_registrations(fresh):
    done = fresh(GUARD + """
import slipstream, slipstream.torch as st
library = torch.library.Library("slip_seen", "DEF")
st.RegistrationSignature("(out y: f32[N])").define(library, "f")
""" + UNTOUCHED, prelude=False)
    assert done.returncode != 0 and "something was registered" in done.stderr


def test_slipstream_itself_imports_no_torch(fresh):
    assert "ok" in passed(fresh("import sys, slipstream\nif 'torch' in sys.modules: raise SystemExit('torch was imported')\nprint('ok')\n", prelude=False))


def test_without_pytorch_the_error_says_what_is_missing(fresh):
    done = fresh("import sys\nsys.modules['torch'] = None\nimport slipstream.torch\n", prelude=False)
    assert done.returncode != 0 and "slipstream.torch needs PyTorch" in done.stderr and "pip install torch" in done.stderr, done.stderr
