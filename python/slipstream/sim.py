# SPDX-License-Identifier: Apache-2.0
"""Control of the simulator, the platform "sim": a strict virtual accelerator for tests on machines without one."""
from typing import Optional, Tuple

from ._core import _sim_break_device, _sim_fail_call, _sim_fail_clear, _sim_reset, _sim_set_device, _sim_violations

__all__ = ["break_device", "fail_call", "fail_clear", "reset", "set_device", "violations"]


def reset(flavour: Optional[str] = None, seed: int = 0, memory_bytes: int = 0, delay_ns: Optional[int] = None) -> None:
    """Power-on: heals broken devices, forgets violations and faults to come.

    flavour: 'cuda' or 'ascend', whose capture rules apply. seed: of every random decision. memory_bytes: of a device. delay_ns: longest random delay
    before an operation, 0 for none. None and 0 otherwise: the environment's (SLIP_SIM_...), or the default.
    Raises BusyError while streams, memory, graphs or modules are alive.
    """
    _sim_reset(flavour, seed, memory_bytes, delay_ns)


def violations() -> Tuple[str, ...]:
    """What was done that a real device would punish, since the last reset: a tuple of sentences, 64 at most."""
    return _sim_violations()


def set_device(device: int) -> None:
    """Makes a device the calling thread's current one."""
    _sim_set_device(device)


def fail_call(call: str, nth: int, persistent: bool = False) -> None:
    """The nth platform call of that name from now on fails, and all later ones if persistent. InvalidArgumentError: no such call."""
    _sim_fail_call(call, nth, persistent)


def fail_clear() -> None:
    """Ends all failures asked for."""
    _sim_fail_clear()


def break_device(device: int) -> None:
    """Breaks a device as an illegal access by a kernel would."""
    _sim_break_device(device)
