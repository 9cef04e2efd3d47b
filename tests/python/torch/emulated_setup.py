# SPDX-License-Identifier: Apache-2.0
"""The emulated accelerator, known to slipstream: `from emulated_setup import *` in a fresh interpreter."""
import torch  # noqa: F401

import slipstream
import slipstream.torch as slip_torch

import emulated

emu = emulated.install(slipstream.library_path())


def current(index):
    emu.stream_questions += 1
    return emu.current_device(), emu.current_stream(index)


def known(hold=True):
    """Registers the device and opens it."""
    slip_torch.register_device("emu", "sim", current, hold=hold)
    return slip_torch.init("emu")


def refused(error, text, call, *args):
    import re

    try:
        call(*args)
    except error as caught:
        assert re.search(text, str(caught)), caught
    else:
        raise SystemExit(f"not refused: {text}")


def done():
    """The end of each program: nothing of the simulator's was misused, and the library made no lifecycle call."""
    slip_torch.close()
    assert emu._library.violations() == [], emu._library.violations()
    print("ok", flush=True)
