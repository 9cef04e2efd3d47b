# SPDX-License-Identifier: Apache-2.0
"""Gives each test program a process of its own without importing PyTorch each time: fork_server.py TESTS.

Reads requests, one JSON object a line, and forks for each. Nothing has happened in the parent but imports - no thread, no mode, no context - so a child is as good as a new interpreter, and
it ends as one: its exit handlers run.
"""
import json
import os
import sys

sys.path.insert(0, sys.argv[1])
import slipstream  # noqa: E402
import slipstream.torch as st  # noqa: E402
import torch  # noqa: E402

for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(json.dumps({"pid": child}), flush=True)
    _, status = os.waitpid(child, 0)
    print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)
else:
    sys.exit(0)

for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, request["out"], os.O_WRONLY | os.O_CREAT), (2, request["err"], os.O_WRONLY | os.O_CREAT)):
    file = os.open(path, flags, 0o600)
    os.dup2(file, number)
    os.close(file)
os.environ.update(request["environment"])
with open(request["program"], encoding="utf-8") as file:
    text = file.read()
exec(compile(text, request["program"], "exec"), {"__name__": "__main__", "sys": sys, "torch": torch, "slipstream": slipstream, "st": st})
