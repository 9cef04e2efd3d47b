# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# What inductor compiles is kept beside the interpreter, for the next run.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(sys.prefix, "var", "torchinductor"))

torch = pytest.importorskip("torch", reason="PyTorch is not installed; tools/setup check installs it")
import slipstream  # noqa: E402
import slipstream.torch as slip_torch  # noqa: E402


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    count = {k: len(terminalreporter.stats.get(k, [])) for k in ("passed", "failed", "error", "skipped", "xfailed", "xpassed")}
    terminalreporter.write_line(f"\n{count['passed'] + count['xfailed']} passed, {count['failed'] + count['error'] + count['xpassed']} failed, {count['skipped']} skipped")


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory):
    """Paths of the compiled test programs."""
    folder = tmp_path_factory.mktemp("artifacts")
    made = {}
    for manifest in (ROOT / "examples" / "axpy" / "axpy.json", HERE / "programs" / "mix.json", HERE / "programs" / "wait.json"):
        path = folder / (manifest.stem + ".slipc")
        slipstream.compile(str(manifest), str(path))
        made[manifest.stem] = str(path)
    return made


@pytest.fixture(scope="session")
def minilm_artifact(tmp_path_factory):
    path = tmp_path_factory.mktemp("minilm") / "minilm.slipc"
    slipstream.compile(str(ROOT / "examples" / "minilm" / "minilm.json"), str(path))
    return path


@pytest.fixture(scope="session")
def context():
    return slip_torch.init("cpu")


@pytest.fixture(scope="session")
def axpy(context, artifacts):
    return slip_torch.load(artifacts["axpy"], "slip_test")


@pytest.fixture(scope="session")
def mix(context, artifacts):
    return slip_torch.load(artifacts["mix"], "slip_test")


@pytest.fixture(scope="session")
def server():
    process = subprocess.Popen([sys.executable, str(HERE / "fork_server.py"), str(HERE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.stdin.close()
    process.wait(300)


@pytest.fixture
def fresh(request, artifacts, tmp_path):
    """Runs a program in a process of its own; returns the finished process. Names in it: torch, slipstream, st, AXPY, MIX, TESTS.

    With interpreter options, or prelude=False (then the first three are not there), it is an interpreter of its own; else a fork of one that has only imported.
    """

    def run(program, *options, timeout=900, prelude=True, environment=None):
        path = tmp_path / "program.py"
        names = f"AXPY, MIX, TESTS = {artifacts['axpy']!r}, {artifacts['mix']!r}, {str(HERE)!r}\n"
        if options or not prelude:
            imports = "import sys; sys.path.insert(0, TESTS)\nimport torch, slipstream, slipstream.torch as st\n" if prelude else ""
            path.write_text(names + imports + program, encoding="utf-8")
            return subprocess.run([sys.executable, *options, str(path)], capture_output=True, text=True, timeout=timeout, env={**os.environ, **(environment or {})})
        path.write_text(names + program, encoding="utf-8")
        out, err = tmp_path / "out.txt", tmp_path / "err.txt"
        forks = request.getfixturevalue("server")
        forks.stdin.write(json.dumps({"program": str(path), "out": str(out), "err": str(err), "environment": environment or {}}) + "\n")
        forks.stdin.flush()
        child = json.loads(forks.stdout.readline())["pid"]
        alarm = threading.Timer(timeout, os.kill, (child, signal.SIGKILL))
        alarm.start()
        code = json.loads(forks.stdout.readline())["code"]
        alarm.cancel()
        return subprocess.CompletedProcess([str(path)], code, out.read_text(), err.read_text())

    return run
