# SPDX-License-Identifier: Apache-2.0
"""Where the parts of the wheel are."""
import os


def _home() -> str:
    # The extension's folder: with an editable install the Python files lie elsewhere.
    from . import _core
    return os.path.dirname(os.path.abspath(_core.__file__))


def slip_path() -> str:
    """The slip command of this package."""
    return os.path.join(_home(), "bin", "slip")


def include_path() -> str:
    """The folder to compile C against: #include <slipstream/slipstream.h>."""
    return os.path.join(_home(), "include")
