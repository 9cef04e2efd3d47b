# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# What inductor compiles is kept beside the interpreter, for the next run.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(sys.prefix, "var", "torchinductor"))

torch = pytest.importorskip("torch", reason="PyTorch is not installed; tools/setup check installs it")
import slipstream  # noqa: E402
import slipstream.torch as slip_torch  # noqa: E402


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory):
    """Paths of the compiled test programs."""
    folder = tmp_path_factory.mktemp("artifacts")
    made = {}
    for manifest in (ROOT / "examples" / "axpy" / "axpy.json", HERE / "programs" / "mix.json"):
        path = folder / (manifest.stem + ".slipc")
        slipstream.compile(str(manifest), str(path))
        made[manifest.stem] = str(path)
    return made


@pytest.fixture(scope="session")
def context():
    return slip_torch.init("cpu")


@pytest.fixture(scope="session")
def axpy(context, artifacts):
    return slip_torch.load(artifacts["axpy"], "slip_test")


@pytest.fixture(scope="session")
def mix(context, artifacts):
    return slip_torch.load(artifacts["mix"], "slip_test")


@pytest.fixture
def fresh(artifacts, tmp_path):
    """Runs a program in an interpreter of its own; returns the finished process. Names in it: torch, slipstream, st, AXPY, MIX."""

    def run(program, *options, timeout=120, prelude=True, environment=None):
        head = f"AXPY, MIX, TESTS = {artifacts['axpy']!r}, {artifacts['mix']!r}, {str(HERE)!r}\n"
        if prelude:
            head += "import sys; sys.path.insert(0, TESTS)\nimport torch, slipstream, slipstream.torch as st\n"
        path = tmp_path / "program.py"
        path.write_text(head + program, encoding="utf-8")
        return subprocess.run([sys.executable, *options, str(path)], capture_output=True, text=True, timeout=timeout, env={**os.environ, **(environment or {})})

    return run
