# SPDX-License-Identifier: Apache-2.0
"""A lock that a forked child begins anew: the thread that held it at the fork does not exist there."""
import os
import threading


class ForkLock:
    """A re-entrant lock, as a context manager."""

    def __init__(self):
        self._lock, self._process = threading.RLock(), os.getpid()

    def __enter__(self):
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
        self._lock.acquire()

    def __exit__(self, *error):
        self._lock.release()
