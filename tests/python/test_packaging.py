# SPDX-License-Identifier: Apache-2.0
"""What a wheel and a source distribution hold, and what a newcomer does with them."""
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import tarfile

import newcomer
import pytest
import slipstream as slip

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = os.path.dirname(slip.__file__)
BINARIES = ["_core.abi3.so", "_torch.abi3.so", "bin/slip", "lib/libslipc.so.0", "lib/libslipstream.so.0"]


def tracked(*folders):
    """The files of the tree that git has, or would have."""
    done = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return {p for p in done.stdout.split("\n") if p and os.path.exists(os.path.join(ROOT, p))}


def readelf(option, name):
    return subprocess.run(["readelf", "-W", option, os.path.join(HOME, name)], capture_output=True, text=True, check=True).stdout


def test_the_wheel_holds_what_it_should():
    """All Python files with their stub and mark, all public headers, five binaries; nothing else."""
    wanted = {p[len("python/"):] for p in tracked("python/slipstream") if not p.endswith("README.md")}
    wanted |= {"slipstream/" + p for p in tracked("include") if not p.endswith("README.md")} | {"slipstream/" + name for name in BINARIES}
    assert {"slipstream/py.typed", "slipstream/_core.pyi", "slipstream/include/slipstream/kernel/orch.h"} <= wanted
    files = {str(f) for f in importlib.metadata.files("slipstream")}
    there = {f for f in files if f.startswith("slipstream/") and not f.endswith(".pyc")}
    assert there == wanted
    # Outside of the package: metadata and the command.
    rest = {re.sub(r"^slipstream-[^/]*\.dist-info/", "", f) for f in files if not f.startswith("slipstream/")}
    assert rest <= {"METADATA", "RECORD", "WHEEL", "INSTALLER", "REQUESTED", "direct_url.json", "entry_points.txt", "licenses/LICENSE", "../../../bin/slip"}, rest


def test_the_tag_is_honest():
    """One wheel for CPython 3.10 and later. Not manylinux: that promises that nothing but a list of libraries is wanted, and jansson is not on it."""
    text = importlib.metadata.distribution("slipstream").read_text("WHEEL")
    assert re.findall(r"^Tag: (.*)$", text, re.M) == ["cp310-abi3-linux_" + platform.machine()]
    assert re.findall(r"^Root-Is-Purelib: (.*)$", text, re.M) == ["false"]


@pytest.mark.parametrize("name", BINARIES)
def test_binaries_stand_alone(name):
    """They want each other, jansson and glibc; not libpython, and nothing by a path of the machine that built them."""
    dynamic = readelf("-d", name)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", dynamic))
    assert needed <= {"libslipstream.so.0", "libslipc.so.0", "libjansson.so.4", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2",
                      "ld-linux-aarch64.so.1"}, needed
    for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.+?)\]", dynamic):
        assert all(p.startswith("$ORIGIN") for p in path.split(":")), path
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", readelf("-V", name))]
    assert max(versions) <= (2, 36)  # Debian 12


@pytest.mark.parametrize("name", ["_core.abi3.so", "_torch.abi3.so"])
def test_extensions_export_their_init_function_only(name):
    rows = [line.split() for line in readelf("--dyn-syms", name).splitlines()]
    exported = {r[7] for r in rows if len(r) > 7 and r[6] not in ("UND", "ABS") and r[4] in ("GLOBAL", "WEAK") and r[7] not in ("_init", "_fini")}
    assert exported == {"PyInit_" + name.split(".")[0]}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The source distribution: its archive and where it was unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    code = "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])"
    done = subprocess.run([sys.executable, "-I", "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    archive, = folder.glob("slipstream-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    return archive, folder / archive.name[:-len(".tar.gz")]


def test_the_source_distribution_is_lean(source):
    archive, folder = source
    there = {os.path.relpath(os.path.join(d, f), folder) for d, _, files in os.walk(folder) for f in files}
    assert there - tracked() == {"PKG-INFO"}
    assert not {p for p in there if p.startswith(("tests/", "bench/", "build/", ".venv/", "examples/minilm/")) or p.endswith(("_test.c", ".pml"))}
    assert archive.stat().st_size < 2 << 20


def test_a_newcomer_gets_from_nothing_to_a_call(source, tmp_path):
    """README's session, in the unpacked source distribution: it has all that a wheel needs."""
    # Without optimisation: what counts is that it builds, and that takes a third of the time.
    quick = {"SKBUILD_CMAKE_DEFINE": "CMAKE_C_FLAGS_RELEASE=-O0"}
    output = newcomer.run(os.path.join(ROOT, "README.md"), source[1], tmp_path / "home", newcomer.is_backend, quick)
    assert output.endswith("\n[1.0, 3.0, 5.0, 7.0]\n"), output


def test_an_editable_install_is_the_checkout(tmp_path):
    """pip install -e . in an environment of its own: Python files are those of the checkout, the rest works as in a wheel."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}, "PYTHONPATH": os.path.dirname(os.path.dirname(newcomer.scikit_build_core.__file__))}
    run = {"cwd": tmp_path, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "check": False}
    base = getattr(sys, "_base_executable", sys.executable)
    done = subprocess.run([base, "-m", "venv", "--without-pip", "env"], **run)
    assert done.returncode == 0, done.stdout
    python = str(tmp_path / "env" / "bin" / "python")
    done = subprocess.run([python, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps", "--ignore-installed", "--disable-pip-version-check", "-e", ROOT], **run)
    assert done.returncode == 0, done.stdout
    del environment["PYTHONPATH"]
    code = """
import array, os, sys, slipstream as slip, slipstream.kernel, importlib.resources
root, = sys.argv[1:]
where = os.path.realpath(slip.__file__)
if where != os.path.join(os.path.realpath(root), "python", "slipstream", "__init__.py"): raise SystemExit(where)
if not slip._core.__file__.startswith(sys.prefix): raise SystemExit(slip._core.__file__)
x, y = array.array("f", [1, 2]), array.array("f", [1, 1])
with slip.kernel.open() as context:
    context.prepare(slip.compile(os.path.join(root, "examples", "axpy", "axpy.json"), "axpy.slipc"))(x, y, 2.0)
print(list(y))
"""
    done = subprocess.run([python, "-I", "-c", code, ROOT], **run)
    assert done.returncode == 0 and done.stdout == "[3.0, 5.0]\n", done.stdout
    done = subprocess.run([str(tmp_path / "env" / "bin" / "slip"), "--version"], **run)
    assert done.returncode == 0 and slip.__version__ in done.stdout, done.stdout


def test_the_readme_session_is_short():
    commands, _, program = newcomer.session_of(os.path.join(ROOT, "README.md"))
    assert "pip install .\n" in re.sub(r" *#.*", "", commands) and len(program.splitlines()) < 15
