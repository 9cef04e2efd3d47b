# SPDX-License-Identifier: Apache-2.0
"""The manual's Python blocks run, in order, as one program a name; the reference is what the docstrings say."""
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FENCE = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.M | re.S)


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def pages():
    found = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    return [p for p in found if os.path.exists(os.path.join(ROOT, p)) and "torch" not in p and FENCE.search(read(p))]


def programs(page):
    """Blocks `python run` are one program; blocks `python run=NAME` another one for each name, since a process is in one mode for its life."""
    text, found = read(page), {}
    for match in FENCE.finditer(text):
        mark, _, name = match[1].strip().partition("=")
        assert mark in ("run", "norun"), "mark the block in %s: python run, python run=NAME or python norun=reason" % page
        if mark == "run":
            program = found.setdefault(name, [])
            # At its own line, so that a failure names the line of the page.
            line = text.count("\n", 0, match.start(2))
            program.append("\n" * (line - sum(p.count("\n") for p in program)) + match[2])
    return {name: "".join(program) for name, program in found.items()}


@pytest.mark.parametrize("page", pages())
def test_blocks_run(page, tmp_path):
    os.symlink(os.path.join(ROOT, "examples"), tmp_path / "examples")
    for program in programs(page).values():
        (tmp_path / "page.py").write_text(program)
        done = subprocess.run([sys.executable, "-W", "error", "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr


def test_pages_are_there():
    assert "docs/python.md" in pages() and {"", "worker"} <= set(programs("docs/python.md"))


def test_reference_is_fresh():
    done = subprocess.run([sys.executable, os.path.join(ROOT, "python", "reference"), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
