# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/pytorch.md are one program, which runs."""
import re
import subprocess
import sys

from conftest import ROOT

FENCE = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.M | re.S)


def test_the_manual_runs(tmp_path):
    text = (ROOT / "docs" / "pytorch.md").read_text(encoding="utf-8")
    program = ""
    for match in FENCE.finditer(text):
        if match[1].strip().startswith("norun="):
            continue
        assert match[1].strip() == "run", "mark the block: python run, or python norun=reason"
        program += "\n" * (text.count("\n", 0, match.start(2)) - program.count("\n")) + match[2]  # at its own line
    path = tmp_path / "pytorch_page.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("slip::axpy(Tensor x, Tensor(a1!) y, float a) -> ()", "requires grad", "called after close"):
        assert words in done.stdout


def test_the_reference_is_fresh():
    done = subprocess.run([sys.executable, str(ROOT / "python" / "reference_torch"), "--check"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_runs(tmp_path, minilm_artifact):
    artifact = minilm_artifact
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "minilm" / "torch_encoder.py"), str(artifact), "A whale hunt"], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A whale hunt" in done.stdout and len(done.stdout.splitlines()) == 4
