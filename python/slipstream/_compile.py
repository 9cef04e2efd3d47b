# SPDX-License-Identifier: Apache-2.0
"""slipstream.compile(): defaults, the progress line, and a compilation that Ctrl-C stops."""
import os
import sys
import threading
from typing import Any, Callable, List, Optional, Sequence, TextIO, Union

from ._core import Artifact, CancelledError, _compile, load


class _Progress:
    """One line that is written over, on a terminal only."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.shown = False

    def __call__(self, done: int, total: int, step: str) -> None:
        width = 24
        filled = width * done // max(total, 1)
        self.stream.write("\r\033[K[%s%s] %d/%d %s" % ("#" * filled, "." * (width - filled), done, total, step))
        self.stream.flush()
        self.shown = True

    def close(self) -> None:
        if self.shown:
            self.stream.write("\r\033[K")
            self.stream.flush()


def compile(manifest: Union[str, "os.PathLike[str]"], output: Optional[Union[str, "os.PathLike[str]"]] = None, *,
            targets: Optional[Union[str, Sequence[str]]] = None, contract: Optional[str] = None, compiler: Optional[str] = None, jobs: int = 0,
            replace: bool = False, debug: bool = False, progress: Union[None, bool, Callable[[int, int, str], Any]] = None) -> Artifact:
    """Compiles the program that a manifest describes and returns its Artifact.

    manifest: path of the JSON file. output: artifact directory to make; default: NAME.slipc of the manifest NAME.json, in the working directory.
    targets: a name or a sequence of names ('x86-64-v3'); default: the manifest's, else all of this machine's architecture. contract: 'kernel' or
    'program'; default: the manifest's. compiler: the C compiler; default: $SLIP_CC, gcc, clang, cc. jobs: compilations at once, 0 for as many as the
    process may use. replace: an existing artifact is replaced, atomically. debug: -g -O1. progress: None (a line on stderr if that is a terminal),
    True (that line anyway), False, or a function of (done, total, step); what it raises ends the compilation.

    Blocks without the GIL; Ctrl-C ends it, and nothing is left at output. Raises CompileError (the program is wrong: .diagnostics), ConflictError
    (output exists), NotFoundError, IoError, UnsupportedError (no C compiler).
    """
    path = os.fsdecode(manifest)
    if output is None:
        stem = os.path.basename(path)
        output = (stem[:-5] if stem.endswith(".json") else stem) + ".slipc"
    names = targets if targets is None or isinstance(targets, str) else ",".join(targets)
    line = None
    if sys.stderr is not None and (progress is True or (progress is None and sys.stderr.isatty())):
        progress = line = _Progress(sys.stderr)
    stop = threading.Event()

    def step(done: int, total: int, name: str) -> None:
        if stop.is_set():
            raise CancelledError("the compilation was interrupted")
        if callable(progress):
            progress(done, total, name)

    outcome: List[Any] = []

    def work() -> None:
        try:
            outcome.append(_compile(path, output, names, contract, compiler, jobs, replace, debug, step))
        except BaseException as error:  # noqa: B902  handed over, raised below
            outcome.append(error)

    # A thread of its own, so that signals reach this one.
    thread = threading.Thread(target=work, name="slipstream.compile")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.1)
    except BaseException:
        stop.set()
        thread.join()
        raise
    finally:
        if line:
            line.close()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return load(output)
