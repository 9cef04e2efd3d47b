# SPDX-License-Identifier: Apache-2.0
"""An accelerator: the emulated device, whose streams and memory are the simulator's. Each test in a process of its own."""
import pytest
from test_process import passed

START = "from emulated_setup import *\n"


def test_a_call_is_asynchronous_work_of_the_current_stream(fresh):
    assert "ok" in passed(fresh(START + """
context = known()
axpy = slip_torch.load(AXPY, device="emu")
assert axpy._kernels["emu"].op >= 0  # in C, which asks Python for the stream only
x, y = torch.arange(8.0).to("emu"), torch.zeros(8).to("emu")
lifecycle = emu._library.lifecycle_calls()
for stream in (emu.new_stream(), emu.new_stream()):
    emu.set_stream(stream)
    for _ in range(10):
        assert axpy(x, y, 1.0) is y
    torch.ops.slip.axpy(x, y, 1.0)
    emu.synchronize()
assert y.cpu().tolist() == [22.0 * i for i in range(8)]
assert emu._library.lifecycle_calls() == lifecycle
done()
""", environment={"SLIP_SIM_DELAY_NS": "200000"}))


def test_the_stream_is_asked_at_every_call_and_last(fresh):
    assert "ok" in passed(fresh(START + """
known()
axpy = slip_torch.load(AXPY, device="emu")
x, y = torch.ones(4).to("emu"), torch.zeros(4).to("emu")
before = emu.stream_questions
for _ in range(3):
    axpy(x, y, 1.0)
assert emu.stream_questions == before + 3
for bad in ((torch.ones(4), y, 1.0), (x[:3], y, 1.0), (x, y.view(2, 2), 1.0), (x, y, 1e300)):
    refused(slipstream.InvalidArgumentError, "parameter", axpy, *bad)
    refused(slipstream.InvalidArgumentError, "parameter", axpy.frame, *bad)
assert emu.stream_questions == before + 3  # a call that is refused asks for no stream
frame = axpy.frame(x, y, 1.0)
assert emu.stream_questions == before + 4 and frame.stream == emu.current_stream()
frame.launch()
assert emu.stream_questions == before + 5
emu.synchronize()
done()
"""))


def test_devices_must_agree(fresh):
    assert "ok" in passed(fresh(START + """
known()
axpy = slip_torch.load(AXPY, device="emu")
x, y = torch.ones(4).to("emu"), torch.zeros(4).to("emu")
refused(slipstream.InvalidArgumentError, "'x' .*sim:0.*cpu", axpy, torch.ones(4), y, 1.0)
refused(slipstream.InvalidArgumentError, "'y' .*sim:0.*cpu", axpy, x, torch.zeros(4), 1.0)
refused(RuntimeError, "CPU", torch.ops.slip.axpy, torch.ones(4), torch.zeros(4), 1.0)  # there is no kernel for the cpu
emu.set_device(1)
other = torch.ones(4).to("emu:1")
assert str(other.device) == "emu:1" and str(x.device) == "emu:0"
refused(slipstream.InvalidArgumentError, "'x' .*sim:0.*sim:1", axpy, other, y, 1.0)
# The tensors are right, the current device is not: it is told, never switched.
refused(slipstream.InvalidArgumentError, "current device is 1, but the tensors are on device 0", axpy, x, y, 1.0)
refused(slipstream.InvalidArgumentError, "current device is emu:1, but the tensors are on emu:0", axpy.frame, x, y, 1.0)
assert emu.current_device() == 1
emu.set_device(0)
axpy(x, y, 1.0)
assert y.cpu().tolist() == [1.0] * 4
done()
"""))


def test_one_operator_on_two_kinds_of_device(fresh):
    assert "ok" in passed(fresh(START + """
known()
slip_torch.init("cpu")
axpy = slip_torch.load(AXPY, device="emu")
assert slip_torch.load(AXPY, device="cpu") is axpy and sorted(axpy.artifacts) == ["cpu", "emu"]
for device in ("cpu", "emu"):
    y = torch.zeros(4).to(device)
    axpy(torch.ones(4).to(device), y, 2.0)
    assert y.cpu().tolist() == [2.0] * 4
slip_torch.close("cpu")
refused(slipstream.InvalidStateError, "after close", axpy, torch.ones(4), torch.zeros(4), 1.0)
axpy(torch.ones(4).to("emu"), y, 2.0)
assert y.cpu().tolist() == [4.0] * 4
done()
"""))


@pytest.mark.parametrize("flavour", ["cuda", "ascend"])
def test_capture_and_replay(fresh, flavour):
    assert "ok" in passed(fresh(START + """
known()
axpy = slip_torch.load(AXPY, device="emu")
x, y = torch.ones(4).to("emu"), torch.zeros(4).to("emu")
emu.set_stream(emu.new_stream())
axpy(x, y, 1.0)
emu.synchronize()
emu.capture_begin()
axpy(x, y, 10.0)
torch.ops.slip.axpy(x, y, 100.0)
# What is not allowed in a capture is refused, and the capture goes on.
refused(slipstream.CaptureUnsupportedError, "captur", lambda: slip_torch.register(AXPY, "slip::late", device="emu"))
assert not hasattr(torch.ops.slip, "late")
refused(slipstream.CaptureUnsupportedError, "captur", slip_torch.close)
graph = emu.capture_end()
assert y.cpu().tolist() == [1.0] * 4  # recorded, not run
for _ in range(3):
    emu.replay(graph)
axpy(x, y, 0.5)
emu.synchronize()
assert y.cpu().tolist() == [331.5] * 4
emu.destroy_graph(graph)
late = slip_torch.register(AXPY, "slip::late", device="emu")
late(x, y, 0.5)
assert y.cpu().tolist() == [332.0] * 4
done()
""", environment={"SLIP_SIM_FLAVOUR": flavour}))


def test_init_inside_a_capture(fresh):
    assert "ok" in passed(fresh(START + """
slip_torch.register_device("emu", "sim", current)
emu.set_stream(emu.new_stream())
emu.capture_begin()
refused(slipstream.CaptureUnsupportedError, "captur", slip_torch.init, "emu")
assert slipstream.process_mode() == "unclaimed"
emu.destroy_graph(emu.capture_end())
slip_torch.init("emu")
done()
"""))


def test_tensors_live_until_the_device_is_done(fresh):
    """The caller drops its tensors at once; the launch keeps them."""
    assert "ok" in passed(fresh(START + """
known()
axpy = slip_torch.load(AXPY, device="emu")
emu.set_stream(emu.new_stream())
y = torch.zeros(64).to("emu")
for _ in range(20):
    axpy(torch.ones(64).to("emu"), y, 1.0)
    axpy.frame(torch.ones(64).to("emu"), y, 1.0).launch()
emu.synchronize()
assert y.cpu().tolist() == [40.0] * 64
axpy._kernels["emu"].callable.context.drain()
assert emu.living() == 1, emu.living()  # y: everything else came back
done()
""", environment={"SLIP_SIM_DELAY_NS": "300000"}))


def test_storage_freed_early_is_found(fresh):
    """The negative control of the last test: a device that claims stream-ordered memory and has none."""
    done = fresh(START + """
known(hold=False)
axpy = slip_torch.load(AXPY, device="emu")
emu.set_stream(emu.new_stream())
for attempt in range(20):  # the stream is busy for long; should this process be held up for longer, once more
    y = torch.zeros(64).to("emu")
    x, other = torch.ones(64).to("emu"), torch.ones(64).to("emu")
    for _ in range(20):
        axpy(other, y, 1.0)
    axpy(x, y, 1.0)
    del x
    try:
        emu.synchronize()
    except RuntimeError:
        pass
    if emu._library.violations():
        break
found = emu._library.violations()
assert found and "free" in found[0], found
print("ok", flush=True)
import os
os._exit(0)
""", environment={"SLIP_SIM_DELAY_NS": "50000000"})
    assert "ok" in done.stdout, done.stdout + done.stderr


def test_a_question_that_fails(fresh):
    assert "ok" in passed(fresh(START + """
def broken(index):
    if broken.on:
        raise ValueError("the driver is asleep")
    return current(index)
broken.on = False
slip_torch.register_device("emu", "sim", broken)
slip_torch.init("emu")
axpy = slip_torch.load(AXPY, device="emu")
x, y = torch.ones(4).to("emu"), torch.zeros(4).to("emu")
broken.on = True
refused(slipstream.DeviceError, "did not tell its current device and stream: the driver is asleep", axpy, x, y, 1.0)
refused(RuntimeError, "the driver is asleep", axpy.op, x, y, 1.0)
broken.on = False
axpy(x, y, 1.0)
assert y.cpu().tolist() == [1.0] * 4
done()
"""))


def test_threads_with_streams_of_their_own(fresh):
    assert "ok" in passed(fresh(START + """
import threading
known()
axpy = slip_torch.load(AXPY, device="emu")
wrong = []
def work(number):
    emu.set_stream(emu.new_stream(0), 0)
    x, y = torch.full((100,), float(number)).to("emu"), torch.zeros(100).to("emu")
    for _ in range(20):
        axpy(x, y, 1.0)
    emu.synchronize()
    if y.cpu().tolist() != [20.0 * number] * 100:
        wrong.append(number)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong
done()
"""))


def test_a_forgotten_device_is_closed_at_the_end(fresh):
    done = fresh(START + """
known()
axpy = slip_torch.load(AXPY, device="emu")
x, y = torch.ones(4).to("emu"), torch.zeros(4).to("emu")
axpy(x, y, 1.0)
print("ok", flush=True)
""")
    assert done.returncode == 0 and "ok" in done.stdout and "still open" not in done.stderr and "Fatal" not in done.stderr, done.stderr


def test_registering_devices(fresh):
    assert "ok" in passed(fresh(START + """
slip_torch.register_device("emu", "sim", current)
slip_torch.register_device("emu", "sim", current)
refused(slipstream.ConflictError, "'emu' is registered already", slip_torch.register_device, "emu", "cpu", current)
for name in ("cpu", "cuda", "meta"):
    refused(slipstream.InvalidArgumentError, "PyTorch's own", slip_torch.register_device, name, "sim", current)
refused(slipstream.InvalidArgumentError, "current device|device 1", slip_torch.init, "emu:1")  # not the current one
refused(slipstream.InvalidStateError, "init", lambda: slip_torch.load(AXPY, device="emu"))
done()
"""))


def test_compiled_with_the_device(fresh):
    assert "ok" in passed(fresh(START + """
known()
axpy = slip_torch.load(AXPY, device="emu")
@torch.compile(backend="eager", fullgraph=True, dynamic=True)
def step(x, y):
    axpy(x, y, 2.0)
    return axpy(x, y, 1.0)
for size in (4, 9):
    x, y = torch.ones(size).to("emu"), torch.zeros(size).to("emu")
    step(x, y)
    assert y.cpu().tolist() == [3.0] * size
done()
"""))
