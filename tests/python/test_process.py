# SPDX-License-Identifier: Apache-2.0
"""Fork, exit, threads at exit, subinterpreters: in processes of their own."""
import os
import subprocess
import sys

import pytest
import slipstream as slip

OPEN = """
import numpy as np
context = slip.kernel.open()
f = context.prepare(slip.load(folder + "/axpy.slipc"))
x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
f(x, y, 1.0)
"""


def test_forked_child_is_refused(python):
    done = python(OPEN + """
pid = os.fork()
if not pid:
    status = 0
    for call in (lambda: f(x, y, 1.0), lambda: context.prepare(slip.load(folder + "/axpy.slipc")), context.close, context.graph, slip.kernel.open,
                 lambda: f.launch(slip.INLINE, x, y, 1.0)):
        try:
            call()
            status = 1
        except slip.ForkedError as error:
            if error.code != -9 or "spawn" not in str(error):
                print(error)
                status = 2
    slip.empty(4), slip.Signature("(in x: f32[N])"), slip.load(folder + "/axpy.slipc")
    sys.stdout.flush()
    os._exit(status)
assert os.waitpid(pid, 0)[1] == 0
f(x, y, 1.0)
assert y[0] == 2
context.close()
""", "-W", "ignore::DeprecationWarning")  # newer interpreters warn of fork() with threads
    assert done.stderr == ""


def test_forked_child_exits_quietly(python):
    """With everything inherited, and through the interpreter's whole end."""
    done = python(OPEN + """
graph = context.graph()
graph.add(f, x, y, 1.0)
stream = slip.Stream()
ticket = f.launch(stream, x, y, 1.0)
ticket.wait()
pid = os.fork()
if not pid:
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
""")
    assert "Traceback" not in done.stderr and "Error" not in done.stderr, done.stderr


def test_fork_before_claiming(python):
    python("""
pid = os.fork()
import numpy as np
with slip.kernel.open() as context:
    f = context.prepare(slip.load(folder + "/axpy.slipc"))
    y = np.zeros(4, np.float32)
    f(np.ones(4, np.float32), y, 1.0)
    assert y[0] == 1
if pid:
    assert os.waitpid(pid, 0)[1] == 0
""")


def test_multiprocessing(python, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text("""
import multiprocessing, sys
import numpy as np
import slipstream as slip
def work(path):
    with slip.kernel.open() as context:
        y = np.zeros(4, np.float32)
        context.prepare(slip.load(path))(np.ones(4, np.float32), y, 3.0)
        return y.tolist()
def refused(path):
    try:
        slip.kernel.open()
    except slip.ForkedError:
        return True
if __name__ == "__main__":
    path = sys.argv[1]
    with slip.kernel.open():
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(work, (path,)) == [3, 3, 3, 3]
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply(refused, (path,)) is True
""")
    python("import subprocess\nsys.exit(subprocess.call([sys.executable, %r, folder + '/axpy.slipc']))" % str(script))


def test_exit_with_everything_open(python):
    done = python(OPEN + """
graph = context.graph()
graph.add(f, x, y, 1.0)
stream = slip.Stream()
event = slip.Event()
event.record(stream)
ticket = f.launch(stream, x, y, 1.0)
tensor = slip.empty(1000)
twin = np.from_dlpack(tensor)
capsule = tensor.__dlpack__(max_version=(1, 0))
""")
    assert done.stderr == ""


def test_exit_with_launches_in_flight(python):
    done = python(OPEN + """
import threading
wait = context.prepare(slip.load(folder + "/wait.slipc"))
flag, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
stream = slip.Stream()
tickets = [wait.launch(stream, flag, done)] + [f.launch(stream, x, y, 1.0) for _ in range(20)]
threading.Timer(0.05, flag.__setitem__, [0, 1]).start()
""", program=("axpy", "wait"))
    assert done.stderr == ""


def test_exit_while_a_daemon_thread_calls(python):
    done = python(OPEN + """
import threading
def work():
    a, b = np.ones(1 << 16, np.float32), np.zeros(1 << 16, np.float32)
    while True:
        try:
            f(a, b, 1.0)
        except slip.SlipError:
            return
threading.Thread(target=work, daemon=True).start()
threading.Thread(target=work, daemon=True).start()
import time
time.sleep(0.05)
""")
    assert "Fatal" not in done.stderr and "Segmentation" not in done.stderr, done.stderr


def test_exit_in_references_cycles(python):
    done = python(OPEN + """
class Node: pass
node = Node()
node.me, node.context, node.f = node, context, f
node.ticket = f.launch(slip.INLINE, x, y, 1.0)
node.graph = context.graph()
sys.node = node
import builtins
builtins.node = node
""")
    assert done.stderr == ""


def test_os_exit_leaves_everything(python):
    done = python(OPEN + "os._exit(0)\n")
    assert done.returncode == 0


def test_closing_twice_at_exit(python):
    done = python(OPEN + "import atexit\natexit.register(context.close)\n")
    assert done.stderr == ""


def test_call_from_an_exit_handler(python):
    """Registered before open(), so that it runs after the context was closed: refused, not crashed."""
    done = python("""
import atexit
def last():
    try:
        f(x, y, 1.0)
    except slip.InvalidStateError:
        print("refused")
atexit.register(last)
""" + OPEN)
    assert done.stdout == "refused\n" and done.stderr == ""


def test_subinterpreter(python):
    """An interpreter that shares the lock has types and contexts of its own, and shares the process's context."""
    done = python(OPEN + """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
try:
    other = interpreters.create(isolated=False)
except TypeError:
    other = interpreters.create("legacy")
interpreters.run_string(other, '''
import slipstream as slip
with slip.kernel.open() as context:
    f = context.prepare(slip.load(%r))
    x, y = slip.empty(4), bytearray(16)
    y = slip.Tensor(memoryview(y).cast("f"))
    x.copy_from(memoryview(bytes([0, 0, 128, 63] * 4)).cast("f"))
    f(x, y, 2.0)
    if memoryview(y).tolist() != [2, 2, 2, 2]:
        raise SystemError("wrong")
''' % (folder + "/axpy.slipc"))
interpreters.destroy(other)
f(x, y, 1.0)
assert y[0] == 2
context.close()
""", check=False)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr


def test_another_library_is_refused(tmp_path):
    """At import, with both versions in the sentence."""
    (tmp_path / "other.c").write_text('const char *slip_version(void);\nconst char *slip_version(void) { return "9.8.7"; }\n')
    subprocess.run(["gcc", "-shared", "-fPIC", str(tmp_path / "other.c"), "-o", str(tmp_path / "other.so")], check=True)
    code = "try:\n import slipstream\nexcept ImportError as error:\n print(error)\n"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, env=dict(os.environ, LD_PRELOAD=":".join(filter(None, (os.environ.get("LD_PRELOAD"), str(tmp_path / "other.so"))))))
    assert "9.8.7" in done.stdout and slip.__version__ in done.stdout and "other.so" in done.stdout, done.stdout + done.stderr


def test_mode_conflict_has_its_class(python):
    python("assert issubclass(slip.ModeConflictError, slip.SlipError) and slip.process_mode() == 'unclaimed'")


@pytest.mark.parametrize("flags", [("-O",), ("-OO",), ("-X", "dev"), ("-W", "error")], ids=" ".join)
def test_under_flags(python, flags):
    done = python(OPEN + "if y[0] != 1: raise SystemExit(1)\ntry:\n    f(x, y)\n    raise SystemExit(2)\nexcept slip.ArgumentTypeError:\n    pass\n", *flags)
    assert done.stderr == ""
