# SPDX-License-Identifier: Apache-2.0
"""Importing does nothing."""
import ast
import importlib.metadata
import inspect
import os
import subprocess
import sys
import sysconfig

import guard
import pytest
import slipstream as slip
from slipstream import _core

FLAGS = [(), ("-O",), ("-OO",)]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda f: " ".join(f) or "normal")
@pytest.mark.parametrize("code", [
    "import slipstream",
    "import slipstream.kernel, slipstream.sim, slipstream.exceptions, slipstream._core",
    "import importlib, slipstream; importlib.reload(slipstream); importlib.reload(slipstream.kernel)",
    "from slipstream import *",
])
def test_import_requests_nothing(code, flags):
    done = guard.run(code, flags)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("flags", FLAGS, ids=lambda f: " ".join(f) or "normal")
@pytest.mark.parametrize("code", [
    "import torch_npu",
    "try:\n import torch_npu\nexcept ImportError:\n pass",
    "import importlib\ntry:\n importlib.import_module('torch')\nexcept Exception:\n pass",
    "try:\n __import__('numpy.linalg')\nexcept BaseException:\n pass",
    "import importlib.util\ntry:\n importlib.util.find_spec('acl')\nexcept ImportError:\n pass",
    "import threading\ndef f():\n try:\n  import cupy\n except ImportError:\n  pass\nt = threading.Thread(target=f); t.start(); t.join()",
], ids=["plain", "swallowed", "importlib", "dunder", "find_spec", "thread"])
def test_guard_catches(code, flags):
    """Negative controls: the guard can fail."""
    done = guard.run(code, flags)
    assert done.returncode == guard.REQUESTED, done.stdout + done.stderr


def test_guard_tells_other_failures():
    assert guard.run("raise ValueError('x')").returncode == guard.CODE_FAILED
    assert guard.run("pass").returncode == 0


def test_import_claims_nothing():
    code = ("import slipstream as slip, threading, sys, signal, atexit\n"
            "assert slip.process_mode() == 'unclaimed'\n"
            "assert threading.active_count() == 1 and len([t for t in __import__('os').listdir('/proc/self/task')]) == 1\n"
            "slip.platforms(); slip.Signature('(in x: f32[N])'); slip.empty(4)\n"
            "assert slip.process_mode() == 'unclaimed'\n")
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr


def test_without_the_gil_the_import_is_refused():
    """Free-threaded interpreters only; others ignore the option, or do not start with it."""
    code = "import slipstream; print(slipstream.process_mode())"
    done = subprocess.run([sys.executable, "-I", "-X", "gil=0", "-c", code], capture_output=True, text=True, check=False, cwd="/")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert done.returncode == 1 and "slipstream needs the GIL" in done.stderr and "-X gil=0" in done.stderr, done.stderr
    elif done.returncode == 0:
        assert done.stdout == "unclaimed\n", done.stdout
    else:
        assert "GIL is not supported" in done.stderr, done.stderr


def test_module_is_the_command():
    done = subprocess.run([sys.executable, "-I", "-m", "slipstream", "--version"], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0 and slip.__version__ in done.stdout
    done = subprocess.run([sys.executable, "-I", "-m", "slipstream", "inspect", "/no/such"], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode != 0


def test_paths():
    assert os.access(slip.slip_path(), os.X_OK)
    assert os.path.exists(os.path.join(slip.include_path(), "slipstream", "slipstream.h"))
    # The library in use is the one of the wheel, of which there is one.
    home = os.path.dirname(os.path.abspath(_core.__file__))
    assert os.path.realpath(slip.library_path()) == os.path.realpath(os.path.join(home, "lib", "libslipstream.so.0"))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert len({line.split()[-1] for line in maps if "libslipstream" in line}) == 1


def stub():
    with open(os.path.join(os.path.dirname(slip.__file__), "_core.pyi"), encoding="utf-8") as file:
        return ast.parse(file.read())


def stub_names(node):
    names = set()
    for item in node.body:
        if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
            names.add(item.name)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            names.add(item.target.id)
    return names


def test_stub_lists_the_extension():
    there = {n for n in dir(_core) if not n.startswith("__")} | {"__version__"}
    assert stub_names(stub()) - {"__version__"} | {"__version__"} == there


SLOTS = {"__new__", "__enter__", "__exit__", "__len__", "__eq__", "__hash__", "__call__", "__buffer__", "__match_args__", "__dlpack_c_exchange_api__"}


def test_stub_lists_the_members():
    for item in stub().body:
        if not isinstance(item, ast.ClassDef) or issubclass(getattr(_core, item.name), (tuple, BaseException)):
            continue
        declared = stub_names(item) - SLOTS
        there = {n for n in vars(getattr(_core, item.name)) if not n.startswith("__")} | {n for n in ("__dlpack__", "__dlpack_device__")
                                                                                          if n in vars(getattr(_core, item.name))}
        assert declared == there, item.name


def test_stub_has_the_signatures():
    for item in stub().body:
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            signature = inspect.signature(getattr(_core, item.name))
            declared = [a.arg for a in item.args.posonlyargs + item.args.args] + [a.arg for a in item.args.kwonlyargs]
            assert sorted(declared) == sorted(signature.parameters), item.name


def test_everything_public_is_documented():
    missing = [n for n in slip.__all__ if not getattr(slip, n).__doc__]
    for name in ("Tensor", "Signature", "Artifact", "Stream", "Event", "GraphExec"):
        cls = getattr(slip, name)
        missing += ["%s.%s" % (name, m) for m, v in vars(cls).items() if not m.startswith("_") and not v.__doc__]
    for cls in (slip.kernel.Context, slip.kernel.Callable, slip.kernel.Ticket, slip.kernel.Graph):
        missing += ["%s.%s" % (cls.__name__, m) for m, v in vars(cls).items() if not m.startswith("_") and not v.__doc__]
    assert not missing


def test_versions_agree():
    assert importlib.metadata.version("slipstream") == slip.__version__ == slip._core.__version__


def test_typed():
    assert os.path.exists(os.path.join(os.path.dirname(slip.__file__), "py.typed"))
