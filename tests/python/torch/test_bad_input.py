# SPDX-License-Identifier: Apache-2.0
"""Wrong calls: each is refused with a sentence that names the parameter, and nothing is written."""
import ctypes

import pytest
import torch

import slipstream
import slipstream.torch as slip_torch

CALLS = ("operator", "op", "frame")


@pytest.fixture(params=CALLS)
def refused(request, axpy):
    """Calls axpy in each of the ways there are; the call must fail with |text|, leaving y alone."""

    def check(text, x, y, a=1.0, error=slipstream.InvalidArgumentError):
        call = {"operator": axpy, "op": axpy.op, "frame": lambda *args: axpy.frame(*args)}[request.param]
        # The bare operator raises what PyTorch can raise from C++; the kinds that Python kernels refuse keep their class.
        errors = error if isinstance(error, tuple) else (error,)
        with pytest.raises(errors + (RuntimeError,) if request.param == "op" else errors, match=text) as caught:
            call(x, y, a)
        if isinstance(caught.value, slipstream.SlipError):
            assert caught.value.code == -4
        return caught.value

    return check


def test_tensors_that_require_grad(refused):
    refused("'x' .*requires grad", torch.ones(4, requires_grad=True), torch.zeros(4))
    refused("'x' .*requires grad", torch.ones(4, requires_grad=True) * 2, torch.zeros(4))
    refused("'y' .*requires grad", torch.ones(4), torch.zeros(4, requires_grad=True))


def test_wrong_sizes_and_types(refused):
    refused("'y' .*N = 3", torch.ones(3), torch.zeros(4))
    refused("'x' .*rank", torch.ones(3, 1), torch.zeros(3))
    refused("'x' .*f64", torch.ones(3, dtype=torch.float64), torch.zeros(3))
    refused("'x' .*dtype", torch.ones(3, dtype=torch.complex64), torch.zeros(3))


def test_views_that_are_not_contiguous(refused):
    refused("'x' .*contiguous", torch.ones(4, 2).t()[0], torch.zeros(4))
    refused("'y' .*contiguous", torch.ones(4), torch.zeros(8)[::2])
    refused("'x' .*contiguous", torch.ones(1).expand(4), torch.zeros(4))


def test_a_transposed_matrix(context, tmp_path):
    (tmp_path / "copy.json").write_text(
        '{"slip": 1, "name": "copy2", "contract": "kernel", "entry": {"name": "copy2", "symbol": "copy_orchestrate", "signature": "(in x: f32[M,N], out y: f32[M,N])"}, '
        '"kernels": [{"name": "move", "signature": "(in x: f32[M,N], out y: f32[M,N])"}], "sources": ["copy.c"]}', encoding="utf-8")
    (tmp_path / "copy.c").write_text(
        '#include "slip_program.h"\n'
        "void copy_orchestrate(slip_orch_t *o, const slip_oargs_t *args) {\n  slip_task_builder_t task;\n  slip_task_begin(&task, SLIP_KERNEL_move, 1);\n"
        "  slip_task_in(&task, &args->tensors[0]);\n  slip_task_out_existing(&task, &args->tensors[1]);\n  slip_task_submit(o, &task);\n}\n"
        "void move(const slip_kargs_t *args, slip_block_t block) {\n  (void)block;\n  const float *x = args->tensors[0].data;\n  float *y = args->tensors[1].data;\n"
        "  for (int64_t i = 0; i < args->tensors[0].dims[0] * args->tensors[0].dims[1]; ++i) y[i] = x[i];\n}\n", encoding="utf-8")
    slipstream.compile(str(tmp_path / "copy.json"), str(tmp_path / "copy.slipc"))
    operator = slip_torch.load(tmp_path / "copy.slipc", "slip_test")
    x, y = torch.randn(3, 4), torch.zeros(4, 3)
    with pytest.raises(slipstream.InvalidArgumentError, match=r"'x' .*strides \[1,4\] are not contiguous"):
        operator(x.t(), y)
    assert y.abs().sum() == 0
    operator(x.t().contiguous(), y)
    torch.testing.assert_close(y, x.t())


def test_conjugate_and_negative_views(refused):
    refused("neg(ative)? view", torch._neg_view(torch.ones(4)), torch.zeros(4))
    refused("conj(ugate)? view|complex64", torch.ones(4, dtype=torch.complex64).conj(), torch.zeros(4))
    y = torch.ones(4)
    refused("neg(ative)? view", torch.ones(4), torch._neg_view(y))
    assert y.tolist() == [1.0] * 4


def test_other_layouts(refused):
    refused("sparse", torch.ones(4).to_sparse(), torch.zeros(4))
    refused("sparse", torch.ones(4, 4).to_sparse_csr(), torch.zeros(4))
    refused("quantised", torch.quantize_per_tensor(torch.ones(4), 1.0, 0, torch.quint8), torch.zeros(4))
    refused("nested", torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), torch.zeros(4))
    refused("oneDNN|layout", torch.ones(2, 2).to_mkldnn(), torch.zeros(4))


def test_tensors_without_memory(refused):
    refused("meta|fake", torch.ones(4, device="meta"), torch.zeros(4))
    refused("meta|fake", torch.ones(4), torch.zeros(4, device="meta"))


def test_a_fake_tensor_outside_of_its_mode(refused, request):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(4)
    # PyTorch itself refuses to mix fake and real tensors, where it comes first.
    refused("fake|Fake|Mixing", fake, torch.zeros(4), error=(slipstream.InvalidArgumentError, RuntimeError, AssertionError))


def test_partial_overlap(refused):
    base = torch.zeros(10)
    refused("overlap", base[0:5], base[2:7])


def test_zero_size_tensors_with_wild_offsets(axpy):
    wild = torch.zeros(4).as_strided((0,), (1,), 1 << 40)
    axpy(wild, torch.zeros(0), 1.0)  # an empty tensor accesses nothing
    axpy.frame(wild, torch.zeros(0), 1.0).launch()


def test_no_bounds_beyond_the_storage(axpy):
    """PyTorch lets a storage shrink under its tensors."""
    x = torch.ones(64)
    x.untyped_storage().resize_(16)
    for call in (axpy, axpy.frame):
        with pytest.raises(slipstream.InvalidArgumentError, match="'x' .*storage|outside"):
            call(x, torch.zeros(64), 1.0)


def test_a_storage_that_is_gone(refused):
    x = torch.ones(64)
    x.untyped_storage().resize_(0)
    refused("'x' .*null address", x, torch.zeros(64))


def test_a_subclass_that_wraps_others(refused):
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise RuntimeError(f"Wrapper does not know {function}")

    # Through the dispatcher it is the subclass's own business; a frame needs memory.
    refused("does not know slip_test.axpy|a Wrapper, whose memory", Wrapper(torch.ones(4)), torch.zeros(4), error=(slipstream.InvalidArgumentError, RuntimeError))


def test_resized_after_the_frame_was_made(axpy):
    for change in (lambda t: t.resize_(2), lambda t: t.untyped_storage().resize_(4096), lambda t: t.set_(torch.zeros(8)), lambda t: t.untyped_storage().resize_(0)):
        x, y = torch.ones(8), torch.zeros(8)
        frame = axpy.frame(x, y, 1.0)
        change(y)
        with pytest.raises(slipstream.InvalidArgumentError, match="parameter 1.*resized or given another storage"):
            frame.launch()
    x, y = torch.ones(8), torch.zeros(8)
    frame = axpy.frame(x, y, 1.0)
    assert frame.launch() is y and y.tolist() == [1.0] * 8


def test_a_frame_keeps_its_tensors(axpy):
    y = torch.zeros(8)
    frame = axpy.frame(torch.ones(8), y, 1.0)
    frame.launch()
    frame.launch()
    assert y.tolist() == [2.0] * 8
    assert [i for i, _ in frame.tensors] == [0, 1] and frame.scalars == ((2, 1.0),) and frame.stream == 1 and str(frame.device) == "cpu:0"
    assert frame.alias_result() is y


def test_a_frame_of_a_signature_alone_cannot_be_launched():
    signature = slip_torch.CallSignature("(in x: f32[N], out y: f32[N])", "copy")
    frame = signature.bind(torch.ones(2), torch.zeros(2))
    assert frame.alias_result() is None
    with pytest.raises(slipstream.InvalidStateError, match="copy: .*Operator.frame"):
        frame.launch()


def test_wrong_number_of_arguments(axpy):
    with pytest.raises(slipstream.ArgumentTypeError, match="2 arguments, expected 3: x, y, a"):
        axpy.frame(torch.ones(2), torch.zeros(2))
    with pytest.raises(slipstream.ArgumentTypeError, match="2 arguments, expected 3: x, y, a"):
        axpy(torch.ones(2), torch.zeros(2))
    with pytest.raises(RuntimeError, match="missing value for argument 'a'"):  # PyTorch's own
        torch.ops.slip_test.axpy(torch.ones(2), torch.zeros(2))


@pytest.mark.parametrize("wrong", [[1.0, 2.0], "x", 3, range(4)], ids=str)
def test_what_is_no_tensor(axpy, wrong):
    """The words of a call, with a code, where PyTorch would print the whole object."""
    with pytest.raises(slipstream.ArgumentTypeError, match=f"slip_test::axpy: parameter 0 'x' .*a {type(wrong).__name__}, expected a torch.Tensor of f32"):
        axpy(wrong, torch.zeros(2), 1.0)


# --- scalars ---------------------------------------------------------------------------------------------------------------------------------
def bound(dtype, value):
    frame = slip_torch.CallSignature(f"(out y: f32[1], s: {dtype})", "call").bind(torch.zeros(1), value)
    return frame.scalars[0][1]


@pytest.mark.parametrize("dtype,value,text", [
    ("bool", 1, "expected a bool"), ("bool", 0, "expected a bool"), ("bool", 1.0, "expected a bool"), ("bool", None, "expected a bool"), ("i32", True, "expected i32"),
    ("i32", 3.0, "expected i32"), ("i32", "3", "expected i32"), ("f32", True, "expected f32"), ("f32", "1", "expected f32"), ("f32", 1j, "expected f32"),
    ("i32", torch.ones((), dtype=torch.int32), "expected i32"),
])
def test_scalars_of_another_kind(dtype, value, text):
    with pytest.raises(slipstream.ArgumentTypeError, match=f"call: parameter 1 's' .*{text}"):
        bound(dtype, value)


@pytest.mark.parametrize("dtype,value", [("i8", 128), ("i8", -129), ("u8", -1), ("u8", 256), ("u16", 1 << 16), ("i32", 1 << 31), ("u32", -1), ("i64", 1 << 63), ("u64", -1), ("u64", 1 << 64),
                                         ("f32", 1e39), ("f16", 65520.0), ("f32", 10**40)])
def test_scalars_out_of_range(dtype, value):
    with pytest.raises(slipstream.InvalidArgumentError, match="parameter 1"):
        bound(dtype, value)


@pytest.mark.parametrize("dtype,value", [("u64", (1 << 64) - 1), ("i64", -(1 << 63)), ("f32", float("nan")), ("f16", float("inf")), ("f32", 3), ("bool", True), ("u8", 255)])
def test_scalars_that_fit(dtype, value):
    assert bound(dtype, value) == value or value != value


def test_typed_boxes_must_match_and_are_copied():
    box = ctypes.c_int32(7)
    frame = slip_torch.CallSignature("(out y: f32[1], s: i32)").bind(torch.zeros(1), box)
    box.value = 9
    assert frame.scalars == ((1, 7),)
    for dtype, wrong in (("i64", ctypes.c_int32(1)), ("f32", ctypes.c_double(1)), ("bool", ctypes.c_int8(1)), ("i32", ctypes.c_bool(True))):
        with pytest.raises(slipstream.ArgumentTypeError, match=f"'s' .*expected {dtype}"):
            bound(dtype, wrong)


def test_a_box_that_changes_after_the_call(mix):
    count = ctypes.c_int64(5)
    x, y, s = torch.zeros(2), torch.zeros(2), torch.zeros(2, dtype=torch.int32)
    frame = mix.frame(x, y, s, count, 0, False, 1.0)
    count.value = 100
    frame.launch()
    assert y.tolist() == [5.0, 5.0]


def test_numpy_scalars():
    numpy = pytest.importorskip("numpy")
    assert bound("i32", numpy.int32(-4)) == -4 and type(bound("i32", numpy.int32(-4))) is int
    assert bound("bool", numpy.bool_(True)) is True
    assert bound("f32", numpy.float32(0.5)) == 0.5
    for dtype, wrong in (("i32", numpy.int64(1)), ("f32", numpy.float64(1)), ("bool", numpy.int8(1)), ("u8", numpy.int8(1))):
        with pytest.raises(slipstream.ArgumentTypeError, match=f"'s' .*NumPy {wrong.dtype.name}, expected {dtype}"):
            bound(dtype, wrong)


def test_scalars_through_the_operator(mix):
    x, y, s = torch.zeros(2), torch.zeros(2), torch.zeros(2, dtype=torch.int32)
    with pytest.raises(slipstream.InvalidArgumentError, match="parameter 4 'small'"):
        mix(x, y, s, 0, 256, False, 1.0)
    with pytest.raises(slipstream.InvalidArgumentError, match="parameter 6 'a'"):
        mix(x, y, s, 0, 0, False, 1e300)
    for wrong, name in (((1.5, 0, False, 1.0), "count"), ((True, 0, False, 1.0), "count"), ((torch.tensor(1), 0, False, 1.0), "count"), ((0, 0, 1, 1.0), "on"), ((0, 0, 2.0, 1.0), "on"),
                        ((0, 0, torch.tensor(True), 1.0), "on"), ((0, 0, None, 1.0), "on"), ((0, 0, False, "1"), "a"), ((0, 0, False, True), "a")):
        with pytest.raises(slipstream.ArgumentTypeError, match=f"slip_test::mix: parameter . '{name}'"):
            mix(x, y, s, *wrong)
    with pytest.raises(slipstream.InvalidArgumentError, match="slip_test::mix: parameter 3"):
        mix(x, y, s, 1 << 64, 0, False, 1.0)
    assert s.tolist() == [0, 0]
    mix(x, y, s, ctypes.c_int64(3), ctypes.c_uint8(4), ctypes.c_bool(True), ctypes.c_float(0.0))
    assert y.tolist() == [-7.0, -7.0]


@pytest.mark.parametrize("name", ["slip_test::name", "slip_test::_dir", "slip_test::__class__", "load_library::x", "loaded_libraries::x", "class::x", "aten::axpy", "prims::axpy", "\u00e9::x"])
def test_names_that_torch_ops_would_not_find(context, artifacts, name):
    with pytest.raises(slipstream.InvalidArgumentError, match="operator name"):
        slip_torch.register(artifacts["axpy"], name)
