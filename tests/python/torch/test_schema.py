# SPDX-License-Identifier: Apache-2.0
"""RegistrationSignature: schema, fake kernel, definition in the caller's library."""
import gc
import itertools

import pytest
import torch

import slipstream
import slipstream.torch as slip_torch
from slipstream.torch import registration
from slipstream.torch.registration import RegistrationSignature

_numbers = itertools.count()


@pytest.fixture
def library():
    made = torch.library.Library(f"slip_schema_{next(_numbers)}", "DEF")
    yield made
    made._destroy()


def test_schema():
    text = "(in x: f32[N], out y: bf16[N,4], inout s: u64[2], k: i64, e: f16, flag: bool, b: u8) -> (s, y)"
    assert RegistrationSignature(text).schema == "(Tensor x, Tensor(a1!) y, Tensor(a2!) s, SymInt k, float e, bool flag, SymInt b) -> ()"


@pytest.mark.parametrize("text,error,match", [
    ("(out y: f32[1], k: u64)", slipstream.UnsupportedError, "'k'.*u64"),
    ("(k: i32, e: f32)", slipstream.UnsupportedError, "no tensor"),
    ("(in x: f32[1])", slipstream.UnsupportedError, "writes nothing"),
    ("(in lambda: f32[1], out y: f32[1])", slipstream.InvalidArgumentError, "'lambda'"),
    ("(in Tensor: f32[1], out y: f32[1])", slipstream.InvalidArgumentError, "'Tensor'"),
])
def test_what_a_schema_cannot_say(text, error, match):
    with pytest.raises(error, match=match):
        RegistrationSignature(text)


class Written:
    """A signature as somebody else's code may hand it in."""

    def __init__(self, params, returns=()):
        self.params, self.returns = tuple(slipstream.Param(p) for p in params), tuple(returns)


@pytest.mark.parametrize("params,returns,match", [
    ([("x", "in", "f32", (None,), "nd"), ("y", "out", "f32", (None,), "nd")], [0], "return alias 0"),
    ([("x", "in", "f32", (None,), "nd"), ("y", "out", "f32", (None,), "nd")], [2], "return alias 2"),
    ([("x", "in", "f32", (None,), "nd"), ("y", "out", "f32", (None,), "nd")], [-1], "return alias -1"),
    ([("y", "out", "f32", (None,), "nd"), ("k", "scalar", "i32", None, None)], [1], "return alias 1"),
    ([("y", "out", "f32", (None,), "nd"), ("k", "out", "i32", None, None)], [], "scalar output"),
    ([("y", "out", "f32", (None,), "nd"), ("y", "in", "f32", (None,), "nd")], [], "used twice"),
    ([("y-z", "out", "f32", (None,), "nd")], [], "'y-z'"),
])
def test_signatures_that_no_compiler_made(params, returns, match):
    with pytest.raises((slipstream.InvalidArgumentError, slipstream.UnsupportedError), match=match):
        RegistrationSignature(Written(params, returns))


def test_the_fake_kernel_returns_the_callers_objects():
    y, s = torch.empty(3, device="meta"), torch.empty(2, device="meta")
    assert RegistrationSignature("(out y: f32[N])").fake(y) is None
    assert RegistrationSignature("(out y: f32[N]) -> (y)").fake(y) is y
    result = RegistrationSignature("(out y: f32[N], inout s: f32[2]) -> (s, y, s)").fake(y, s)
    assert result[0] is s and result[1] is y and result[2] is s


def meta(*shape, dtype=torch.float32, **options):
    return torch.empty(shape, dtype=dtype, device="meta", **options)


@pytest.mark.parametrize("make,match", [
    (lambda: (meta(3, dtype=torch.float64), meta(3), 1), "'x' .*dtype is torch.float64, expected f32"),
    (lambda: (meta(3, 1), meta(3), 1), "'x' .*rank is 2, expected 1"),
    (lambda: (meta(3), meta(4), 1), "'y' .*size of axis 0 is 4, expected 3"),
    (lambda: (meta(6)[::2], meta(3), 1), "'x' .*not contiguous"),
    (lambda: (meta(3), torch.zeros(3), 1), "'y' .*on cpu, but parameter 0 'x' is on meta"),
    (lambda: (meta(3, requires_grad=True), meta(3), 1), "'x' .*requires grad"),
    (lambda: (meta(3), 5, 1), "'y' .*a int, expected a torch.Tensor"),
    (lambda: (meta(3), meta(3), 200), "'k' .*200 does not fit i8"),
    (lambda: (meta(3), meta(3)), "2 arguments, expected 3"),
    (lambda: (torch.ones(3).to_sparse(), torch.ones(3), 1), "'x' .*dense"),
    (lambda: (torch._neg_view(torch.ones(3)), torch.ones(3), 1), "'x' .*negative view"),
])
def test_the_fake_kernel_refuses(make, match):
    with pytest.raises(slipstream.InvalidArgumentError, match=match):
        RegistrationSignature("(in x: f32[N], out y: f32[N], k: i8)").fake(*make())


def test_static_sizes():
    signature = RegistrationSignature("(in x: f32[2,M], out y: f32[M])")
    signature.fake(meta(2, 5), meta(5))
    with pytest.raises(slipstream.InvalidArgumentError, match="size of axis 0 is 3, expected 2"):
        signature.fake(meta(3, 5), meta(5))


def test_the_fake_kernel_takes_no_grad_parameters():
    with torch.no_grad():
        RegistrationSignature("(in x: f32[N], out y: f32[N])").fake(meta(3, requires_grad=True), meta(3))


def test_nothing_is_asked_of_memory_device_or_stream(monkeypatch):
    """Fake tensors raise at data_ptr() themselves; here the adapter would raise as well."""
    from slipstream.torch import devices

    def asked(*_):
        raise AssertionError("the fake kernel asked for a device")

    monkeypatch.setattr(devices, "adapter_of", asked)
    monkeypatch.setattr(torch.Tensor, "data_ptr", asked)
    monkeypatch.setattr(torch.Tensor, "untyped_storage", asked)
    monkeypatch.setattr(torch.Tensor, "storage_offset", asked)
    RegistrationSignature("(in x: f32[N], inout y: f32[N], k: i8) -> (y)").fake(meta(3), meta(3), 1)


def test_backed_symbols_stay_symbols():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    x, y = (mode.from_tensor(torch.ones(8), static_shapes=False) for _ in range(2))
    k = environment.create_unbacked_symint()
    with mode:
        assert RegistrationSignature("(in x: f32[N], out y: f32[N], k: i64) -> (y)").fake(x, y, k) is y
    assert not isinstance(x.shape[0], int) and not isinstance(k, int)


def test_unbacked_sizes_get_a_run_time_assertion():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv, statically_known_true

    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    sizes = [environment.create_unbacked_symint() for _ in range(2)]
    with mode:
        for size in sizes:
            torch._check(size >= 0)
        x, y = torch.empty(sizes[0]), torch.empty(sizes[1])
        assert not statically_known_true(sizes[0] == sizes[1])
        RegistrationSignature("(in x: f32[N], out y: f32[N])").fake(x, y)
        assert statically_known_true(sizes[0] == sizes[1]), "nothing remembers that the sizes must agree"


# --- define ------------------------------------------------------------------------------------------------------------------------------------
def test_define_into_the_callers_library(library):
    RegistrationSignature("(in x: f32[N], inout y: f32[N], a: f32) -> (y)").define(library, "add")
    operator = getattr(torch.ops, library.ns).add.default
    assert str(operator._schema) == f"{library.ns}::add(Tensor x, Tensor(a1!) y, float a) -> ()"
    assert operator(meta(3), meta(3), 1.0) is None
    with pytest.raises(slipstream.InvalidArgumentError, match=f"{library.ns}::add: parameter 1 'y'"):
        operator(meta(3), meta(4), 1.0)
    with pytest.raises(NotImplementedError, match="CPU"):
        operator(torch.ones(3), torch.ones(3), 1.0)


def test_a_second_definition_is_pytorchs_own_error(library):
    signature = RegistrationSignature("(in x: f32[N], inout y: f32[N])")
    signature.define(library, "twice")
    for other in (signature, RegistrationSignature("(inout y: f32[N])")):
        with pytest.raises(RuntimeError, match="multiple times|already") as caught:
            other.define(library, "twice")
        assert not isinstance(caught.value, slipstream.SlipError)


@pytest.mark.parametrize("name", ["", "a-b", "a::b", "1a", "class", "a b"])
def test_bad_operator_names(library, name):
    with pytest.raises(slipstream.InvalidArgumentError, match="operator name"):
        RegistrationSignature("(inout y: f32[N])").define(library, name)
    assert not library._op_defs


def test_older_pytorch_has_impl_abstract(library, monkeypatch):
    called = []
    monkeypatch.setattr(torch.library, "impl_abstract", lambda name, function, lib: called.append((name, function, lib)), raising=False)
    monkeypatch.delattr(torch.library, "register_fake")
    RegistrationSignature("(inout y: f32[N])").define(library, "old")
    assert called[0][0] == f"{library.ns}::old" and called[0][2] is library
    assert called[0][1](meta(3)) is None


def test_pytorch_without_either_is_refused_before_anything_is_defined(library, monkeypatch):
    monkeypatch.delattr(torch.library, "register_fake")
    monkeypatch.delattr(torch.library, "impl_abstract", raising=False)
    with pytest.raises(slipstream.UnsupportedError, match="neither torch.library.register_fake nor impl_abstract"):
        RegistrationSignature("(inout y: f32[N])").define(library, "none")
    assert not library._op_defs


def test_a_library_that_is_gone(artifacts, context):
    """The caller's library takes its operator along (what somebody still holds of it is PyTorch's affair). Ours lives on when the Operator is dropped."""
    library = torch.library.Library("slip_gone", "DEF")
    RegistrationSignature("(in x: f32[N], inout y: f32[N], a: f32)").define(library, "add")
    assert torch.ops.slip_gone.add.default._schema.name == "slip_gone::add"
    library._destroy()
    with pytest.raises(AttributeError):
        torch.ops.slip_gone.add
    library = torch.library.Library("slip_gone", "DEF")  # and the name is free again
    RegistrationSignature("(inout y: f32[N])").define(library, "add")
    assert len(torch.ops.slip_gone.add.default._schema.arguments) == 1
    library._destroy()

    slip_torch.load(artifacts["axpy"], "slip_stays")
    gc.collect()
    y = torch.zeros(2)
    torch.ops.slip_stays.axpy(torch.ones(2), y, 1.0)
    assert y.tolist() == [1.0, 1.0]


# --- register ----------------------------------------------------------------------------------------------------------------------------------
def test_the_same_registration_again(artifacts, axpy):
    assert slip_torch.load(artifacts["axpy"], "slip_test") is axpy
    assert slip_torch.register(slipstream.load(artifacts["axpy"]), "slip_test::axpy") is axpy


def test_another_signature_under_a_name_in_use(artifacts, axpy):
    with pytest.raises(slipstream.ConflictError, match="slip_test::axpy is registered with the signature"):
        slip_torch.register(artifacts["mix"], "slip_test::axpy")
    y = torch.zeros(2)
    axpy(torch.ones(2), y, 1.0)
    assert y.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["axpy", "::axpy", "slip::", "a-b::c", "a::b::c", ""])
def test_bad_qualified_names(artifacts, context, name):
    with pytest.raises(slipstream.InvalidArgumentError, match="operator name"):
        slip_torch.register(artifacts["axpy"], name)


def test_a_derivative_cannot_come_later(artifacts, axpy):
    with pytest.raises(slipstream.ConflictError, match="without a derivative"):
        slip_torch.register(artifacts["axpy"], "slip_test::axpy", backward=lambda args, grad: None)


def test_the_registrar_is_found():
    assert registration._fake_registrar() is torch.library.register_fake
