# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import programs
import pytest
import slipstream as slip
from hypothesis import HealthCheck, settings

# The same examples in every run: what fails, fails again. SLIP_TEST_RANDOM=1 looks further.
settings.register_profile("slip", deadline=None, derandomize="SLIP_TEST_RANDOM" not in os.environ, database=None, suppress_health_check=list(HealthCheck))
settings.load_profile("slip")


def pytest_sessionstart(session):
    # What is tested must be what was installed.
    home = os.path.dirname(slip.__file__)
    if not home.startswith(sys.prefix):
        pytest.exit("slipstream comes from %s, not from the environment %s" % (home, sys.prefix), returncode=1)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    count = {k: len(terminalreporter.stats.get(k, [])) for k in ("passed", "failed", "error", "skipped", "xfailed", "xpassed")}
    passed, failed = count["passed"] + count["xfailed"], count["failed"] + count["error"] + count["xpassed"]
    terminalreporter.write_line("")
    terminalreporter.write_line("%d passed, %d failed, %d skipped" % (passed, failed, count["skipped"]))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="session")
def artifacts(folder):
    """artifacts(name): the program of programs.py, compiled once."""
    made = {}

    def get(name, *args):
        key = (name,) + args
        if key not in made:
            made[key] = getattr(programs, name)(folder, *args)
        return made[key]
    return get


@pytest.fixture
def context():
    with slip.kernel.open() as context:
        yield context


@pytest.fixture
def prepare(context, artifacts):
    """prepare(name): a callable of the program, in a context of the test's own."""
    return lambda name, *args: context.prepare(artifacts(name, *args))


@pytest.fixture
def python(folder, artifacts):
    """python(code): runs code in an interpreter of its own, with the programs' folder as `folder`; returns the finished process."""
    def run(code, *flags, program=("axpy",), timeout=600, check=True, env=None):
        for name in program:
            artifacts(name)
        head = "import sys, os, slipstream as slip\nfolder = %r\n" % folder
        done = subprocess.run([sys.executable, "-I", "-X", "faulthandler", *flags, "-c", head + code], capture_output=True, text=True, timeout=timeout,
                              check=False, env=env, cwd="/")
        if check and done.returncode != 0:
            pytest.fail("exit %d\n%s%s" % (done.returncode, done.stdout, done.stderr))
        return done
    return run
