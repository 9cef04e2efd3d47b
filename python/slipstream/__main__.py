# SPDX-License-Identifier: Apache-2.0
"""python -m slipstream: the slip command of this package, in place of this process."""
import os
import sys

from ._paths import slip_path


def main() -> None:
    """Runs slip with this process's arguments."""
    path = slip_path()
    if not os.access(path, os.X_OK):
        sys.exit("slipstream: %s is missing; install the package again" % path)
    sys.stdout.flush()
    os.execv(path, ["slip"] + sys.argv[1:])


if __name__ == "__main__":
    main()
