# SPDX-License-Identifier: Apache-2.0
"""The adapter of torch_npu, without torch_npu: real cpu tensors whose device says "npu", and answers of our own to the questions at the boundary."""
import sys

import pytest
import torch

import slipstream
import slipstream.torch as slip_torch
from slipstream.torch import devices, npu, signature


class Answers:
    """What a torch_npu would say; records what it was asked."""

    def __init__(self, formats=None, elements=None):
        self.asked, self.formats, self.elements = [], formats or {}, elements or {}

    def current_device(self):
        self.asked.append("device")
        return 0

    def raw_stream(self, device):
        self.asked.append("stream")
        return 0x5000 + device

    def storage_format(self, tensor):
        self.asked.append("format")
        return self.formats.get(tensor.data_ptr(), npu.FORMAT_ND)

    def storage_elements(self, tensor):
        self.asked.append("elements")
        return self.elements.get(tensor.data_ptr(), tensor.numel())


@pytest.fixture
def labelled(monkeypatch):
    """Tensors on the cpu whose frames believe that they are on npu:0."""

    def use(answers):
        monkeypatch.setattr(npu, "queries", answers)
        adapter = npu.adapter()
        real = signature._describe

        def describe(tensor, where, param, given):
            found = list(real(tensor, where, param, given))
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
                found[6], found[8] = "ascend", adapter.storage_format(tensor)
            return tuple(found)

        monkeypatch.setattr(signature, "_describe", describe)
        return adapter

    return use


def bind(adapter, text, *args):
    return slip_torch.CallSignature(text, "call").bind(*args, device=torch.device("npu", 0))


@pytest.fixture(autouse=True)
def no_plugin(monkeypatch):
    monkeypatch.setattr(devices, "_adapters", {})
    yield
    assert "torch_npu" not in sys.modules


def npu_device(*args):
    return torch.device(*args)


@pytest.fixture(autouse=True)
def renamed(monkeypatch):
    """torch.device("npu") exists only once torch_npu has renamed PrivateUse1; a stand-in with the same face."""

    class Device:
        type, index = "npu", 0

        def __str__(self):
            return "npu:0"

    real = torch.device
    monkeypatch.setattr(torch, "device", lambda *args: Device() if args and (args[0] == "npu" or isinstance(args[0], Device)) else real(*args))


def test_an_ordinary_call(labelled):
    answers = Answers()
    frame = bind(labelled(answers), "(in x: f32[N], out y: f32[N])", torch.ones(4), torch.zeros(4))
    assert frame.stream == 0x5000
    assert answers.asked == ["format", "format", "device", "stream"]  # device and stream last; no physical shape without an NZ parameter


def test_a_weight_in_nz(labelled):
    weight = torch.zeros(32, 64, dtype=torch.float16)
    answers = Answers({weight.data_ptr(): npu.FORMAT_NZ})
    text = "(in w: f16[K,N] nz, x: f32[M], out y: f32[M])"
    bind(labelled(answers), text, weight, torch.ones(4), torch.zeros(4))
    assert answers.asked == ["format", "format", "format", "elements", "device", "stream"]


def test_the_physical_shape(labelled):
    labelled(Answers())
    assert npu.physical_shape(torch.zeros(32, 64, dtype=torch.float16)) == (4, 2, 16, 16)
    assert npu.physical_shape(torch.zeros(3, 16, 32, dtype=torch.int8)) == (3, 1, 1, 16, 32)
    with pytest.raises(slipstream.InvalidArgumentError, match="matrices"):
        npu.physical_shape(torch.zeros(16))


def test_a_storage_that_is_no_whole_number_of_blocks(labelled):
    view = torch.zeros(32, 64, dtype=torch.float16)
    labelled(Answers({view.data_ptr(): npu.FORMAT_NZ}, {view.data_ptr(): 32 * 64 + 7}))
    with pytest.raises(slipstream.InvalidArgumentError, match="2055 elements, but shape .* takes 2048"):
        npu.physical_shape(view)
    with pytest.raises(slipstream.InvalidArgumentError, match="'w'|physical shape"):
        bind(None, "(in w: f16[K,N] nz, out y: f32[M])", view, torch.zeros(4))


def test_nz_where_nd_is_declared(labelled):
    x = torch.zeros(32, 64, dtype=torch.float16)
    labelled(Answers({x.data_ptr(): npu.FORMAT_NZ}))
    with pytest.raises(slipstream.InvalidArgumentError, match="'x' .*(NZ|format)"):
        bind(None, "(in x: f16[K,N], out y: f32[M])", x, torch.zeros(4))


def test_an_unknown_format(labelled):
    x = torch.zeros(4)
    labelled(Answers({x.data_ptr(): 3}))
    with pytest.raises(slipstream.InvalidArgumentError, match="format number 3"):
        bind(None, "(in x: f32[N], out y: f32[N])", x, torch.zeros(4))


def test_a_refused_call_asks_for_no_device_or_stream(labelled):
    answers = Answers()
    labelled(answers)
    with pytest.raises(slipstream.InvalidArgumentError):
        bind(None, "(in x: f32[N], out y: f32[N])", torch.ones(4), torch.zeros(5))
    assert "device" not in answers.asked and "stream" not in answers.asked


def test_making_the_adapter_imports_nothing():
    adapter = devices.adapter_of("npu")
    assert adapter.platform == "ascend" and adapter.key == "PrivateUse1" and not adapter.hold
    assert "torch_npu" not in sys.modules


def test_the_first_question_needs_torch_npu(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_npu", None)  # an import of it fails
    with pytest.raises(slipstream.UnsupportedError, match="need torch_npu"):
        npu.Queries.current_device()
    monkeypatch.delitem(sys.modules, "torch_npu")


class PublishedNames:
    """The names of the published torch_npu 2.14 wheel that the adapter uses."""

    class _C:
        @staticmethod
        def _npu_getDevice():
            return 3

        @staticmethod
        def _npu_getCurrentRawStreamNoWait(device):
            return 77 + device

        @staticmethod
        def _npu_getCurrentRawStream(device):
            raise AssertionError("this getter drains the task queue")

    @staticmethod
    def get_npu_format(tensor):
        return 29

    @staticmethod
    def get_storage_size(tensor):
        return 512


def test_the_boundary_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_npu", PublishedNames)
    assert npu.Queries.current_device() == 3 and npu.Queries.raw_stream(1) == 78
    assert npu.Queries.storage_format(torch.zeros(1)) == 29 and npu.Queries.storage_elements(torch.zeros(1)) == 512
    monkeypatch.setattr(PublishedNames, "_C", type("Old", (), {"_npu_getCurrentRawStream": lambda device: 1}))
    with pytest.raises(slipstream.UnsupportedError, match="NoWait"):
        npu.Queries.raw_stream(0)
    monkeypatch.delitem(sys.modules, "torch_npu")
