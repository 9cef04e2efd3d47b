# SPDX-License-Identifier: Apache-2.0
"""From `pip install torch .` to an operator: the session of docs/pytorch.md, in an environment of its own."""
import sys

from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "python"))
import newcomer  # noqa: E402


def test_a_newcomer_gets_from_nothing_to_an_operator(tmp_path):
    # All that .venv has but the package itself: pip finds torch there, and builds slipstream.
    output = newcomer.run(ROOT / "docs" / "pytorch.md", ROOT, tmp_path / "home", lambda entry: not entry.lower().startswith(("slipstream", "_slipstream")))
    assert output.endswith("\ntensor([1., 3., 5., 7.])\nslip::axpy(Tensor x, Tensor(a1!) y, float a) -> ()\n"), output
