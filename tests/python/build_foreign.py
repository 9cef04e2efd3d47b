# SPDX-License-Identifier: Apache-2.0
"""Compiles foreign.c with the headers of the installed package and imports it."""
import importlib.util
import os
import subprocess
import sysconfig

import slipstream as slip


def build(folder):
    """The module, from a file in folder."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "foreign.c")
    target = os.path.join(str(folder), "foreign.so")
    subprocess.run([os.environ.get("CC", "gcc"), "-std=gnu17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-I" + slip.include_path(),
                    "-isystem", sysconfig.get_paths()["include"], source, "-o", target], check=True)
    spec = importlib.util.spec_from_file_location("foreign", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
