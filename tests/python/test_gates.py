# SPDX-License-Identifier: Apache-2.0
"""What compilers and type checkers say about the package's sources."""
import concurrent.futures
import glob
import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What python/CMakeLists.txt says, and -Wsign-conversion, which clang has for C and in which the two compilers differ.
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wvla", "-Wundef", "-Wpointer-arith", "-Wconversion", "-Wsign-conversion", "-Wstrict-prototypes", "-Wmissing-prototypes",
            "-Wno-missing-field-initializers"]


def check(compiler, path, *flags):
    return subprocess.run([compiler, "-std=gnu17", "-fsyntax-only", "-D_GNU_SOURCE", "-DPy_LIMITED_API=0x030A0000", "-isystem", sysconfig.get_paths()["include"],
                           "-I" + os.path.join(ROOT, "include"), "-I" + os.path.join(ROOT, "python", "src", "torch"), *WARNINGS, *flags, path], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("compiler", ["clang-14", "gcc"])
def test_the_extensions_compile_without_a_warning(compiler):
    """The wheel is built by one compiler only."""
    assert shutil.which(compiler), compiler + " is missing; tools/setup check installs it"
    sources = sorted(glob.glob(os.path.join(ROOT, "python", "src", "**", "*.c"), recursive=True))
    assert len(sources) > 20
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda path: check(compiler, path), sources))
    assert not [d.stderr for d in done if d.returncode != 0]


@pytest.mark.parametrize("compiler", ["clang-14", "gcc"])
def test_the_compilers_would_warn(compiler, tmp_path):
    """Negative control."""
    path = tmp_path / "sign.c"
    path.write_text("#include <Python.h>\nunsigned f(int x);\nunsigned f(int x) { return x; }\n")
    done = check(compiler, str(path))
    assert done.returncode != 0 and "sign-conversion" in done.stderr


def mypy(*arguments):
    return subprocess.run([sys.executable, "-I", "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_package_is_typed():
    """mypy --strict, on the sources, as of the oldest Python. slipstream.torch is outside: see [tool.mypy] in pyproject.toml."""
    done = mypy("mypy", "--config-file", "pyproject.toml", "--cache-dir", os.devnull)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_is_what_the_extension_has():
    done = mypy("mypy.stubtest", "slipstream._core", "--mypy-config-file", "pyproject.toml", "--allowlist", os.path.join(ROOT, "tests", "python", "stubtest_allowed.txt"))
    assert done.returncode == 0, done.stdout + done.stderr
