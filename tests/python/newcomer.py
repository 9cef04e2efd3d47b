# SPDX-License-Identifier: Apache-2.0
"""The session of a newcomer, as a page of the manual shows it: from `pip install .` to a call.

A page has one ```sh block whose reason begins with "the session", and one ```python block whose reason is "NAME.py of the session". Both run here
to the letter, in a home of their own. What differs from a newcomer's machine is in the environment only: pip may not use the network, so the build
backend (and what else the page takes from an index) lies on a shelf that PYTHONPATH names, and pip takes it from there.
"""
import os
import re
import subprocess
import sys

import scikit_build_core

FENCE = re.compile(r"^```(sh|python) norun=([^\n]*)\n(.*?)^```$", re.M | re.S)
BACKEND = ("scikit_build_core", "packaging", "pathspec")


def session_of(page):
    """Returns the commands, the program's file name and the program."""
    commands = name = program = None
    with open(page, encoding="utf-8") as file:
        for language, reason, text in FENCE.findall(file.read()):
            if language == "sh" and reason.startswith("the session"):
                assert commands is None, "two sessions in %s" % page
                commands = text
            found = re.fullmatch(r"(\w+\.py) of the session", reason)
            if language == "python" and found:
                assert program is None, "two programs in %s" % page
                name, program = found[1], text
    assert commands and program, "no session in %s" % page
    return commands, name, program


def run(page, checkout, home, wanted, environment=None):
    """Runs the session of `page` in the folder `checkout`, with `home` (empty) as home. `wanted(name)`: whether the shelf has this entry of
    site-packages. Returns what it printed."""
    commands, name, program = session_of(page)
    lines = [line for line in program.splitlines() if line.strip()]
    assert len(lines) < 15, "the program of %s has %d lines" % (page, len(lines))
    shelf, programs = home / "shelf", home / "bin"
    shelf.mkdir(parents=True)
    programs.mkdir()
    site = os.path.dirname(os.path.dirname(scikit_build_core.__file__))
    for entry in os.listdir(site):
        if wanted(entry):
            os.symlink(os.path.join(site, entry), shelf / entry)
    # The interpreter by the name that the page uses; not a link, from which it would look for its library.
    python = programs / "python3"
    python.write_text('#!/bin/sh\nexec "%s" "$@"\n' % getattr(sys, "_base_executable", sys.executable))
    python.chmod(0o755)
    (home / name).write_text(program)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV", "SLIP_", "LD_"))}
    clean.update(HOME=str(home), PATH="%s:%s" % (programs, os.environ["PATH"]), PYTHONPATH=str(shelf), PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0",
                 PIP_NO_DEPS="1", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_CACHE_DIR="1", **environment or {})
    done = subprocess.run(["sh", "-eu", "-c", commands], cwd=checkout, env=clean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=900)
    assert done.returncode == 0, "%s\n%s" % (commands, done.stdout)
    return done.stdout


def is_backend(entry):
    return entry.split("-")[0] in BACKEND
