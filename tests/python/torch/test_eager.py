# SPDX-License-Identifier: Apache-2.0
"""Calls with real tensors on the cpu."""
import copy
import inspect
import pickle
import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import slipstream
import slipstream.torch as slip_torch
from slipstream.torch import ops


def test_the_c_path_is_taken(axpy):
    assert axpy._kernels["cpu"].op >= 0
    assert ops._torch.believe(None, None) == (True, True), "requires_grad or versions are not handled in C on this PyTorch"


def test_a_call_writes_and_returns_the_callers_object(axpy):
    x, y = torch.arange(5.0), torch.ones(5)
    assert axpy(x, y, 2.0) is y
    torch.testing.assert_close(y, torch.arange(5.0) * 2 + 1)


def test_the_operator_itself_returns_nothing(axpy):
    x, y = torch.ones(3), torch.zeros(3)
    assert torch.ops.slip_test.axpy(x, y, 3.0) is None
    torch.testing.assert_close(y, torch.full((3,), 3.0))


def test_arguments_by_name(axpy):
    x, y = torch.ones(3), torch.zeros(3)
    assert axpy(x, a=4.0, y=y) is y
    torch.testing.assert_close(y, torch.full((3,), 4.0))
    with pytest.raises(slipstream.ArgumentTypeError, match="expected the arguments x, y, a"):
        axpy(x, y=y)


def test_each_kind_of_argument(mix):
    x, y, s = torch.arange(4.0), torch.empty(4), torch.zeros(2, dtype=torch.int32)
    result = mix(x, y, s, 1 << 33, 255, True, 0.5)
    assert result[0] is y and result[1] is s and result[2] is y
    torch.testing.assert_close(y, -(x * 0.5 + float(1 << 33) + 255))
    assert s.tolist() == [1, 2]


def test_negative_numbers_and_infinities(mix):
    x, y, s = torch.ones(2), torch.empty(2), torch.zeros(2, dtype=torch.int32)
    mix(x, y, s, -3, 0, False, float("inf"))
    assert y.tolist() == [float("inf")] * 2
    mix(x, y, s, -3, 0, False, 1.0)
    assert y.tolist() == [-2.0] * 2


def test_a_view_with_an_offset_is_taken_as_it_is(axpy):
    base_x, base_y = torch.arange(10.0), torch.zeros(10)
    axpy(base_x[3:7], base_y[6:], 1.0)
    assert base_y.tolist() == [0.0] * 6 + [3.0, 4.0, 5.0, 6.0]


def test_one_tensor_for_both_and_neighbours_of_one_storage(axpy):
    both = torch.ones(4)
    axpy(both, both, 1.0)
    assert both.tolist() == [2.0] * 4
    base = torch.ones(8)
    axpy(base[:4], base[4:], 1.0)
    assert base.tolist() == [1.0] * 4 + [2.0] * 4


def test_a_large_call(axpy):
    x, y = torch.randn(100_003), torch.randn(100_003)
    expected = y + 2 * x
    axpy(x, y, 2.0)
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_without_autograd_a_parameter_is_fine(axpy, guard):
    x, y = torch.nn.Parameter(torch.ones(3)), torch.zeros(3)
    with guard():
        axpy(x, y, 1.0)
    assert y.tolist() == [1.0] * 3


def test_more_parameters_than_fit_the_stack(context, tmp_path):
    count = 40
    names = [f"x{i}" for i in range(count)]
    ins = ", ".join(f"{n}: f32[N]" for n in names)
    (tmp_path / "many.json").write_text(
        '{"slip": 1, "name": "many", "contract": "kernel", "entry": {"name": "many", "symbol": "many_orchestrate", "signature": "(in %s, inout y: f32[N]) -> (y)"}, '
        '"kernels": [{"name": "gain", "signature": "(in x: f32[N], inout y: f32[N])"}], "sources": ["many.c"]}' % ins, encoding="utf-8")
    (tmp_path / "many.c").write_text(
        '#include "slip_program.h"\n'
        "void many_orchestrate(slip_orch_t *o, const slip_oargs_t *args) {\n"
        f"  for (int i = 0; i < {count}; ++i) {{\n"
        "    slip_task_builder_t task;\n    slip_task_begin(&task, SLIP_KERNEL_gain, 1);\n    slip_task_in(&task, &args->tensors[i]);\n"
        f"    slip_task_inout(&task, &args->tensors[{count}]);\n    slip_task_submit(o, &task);\n  }}\n}}\n"
        "void gain(const slip_kargs_t *args, slip_block_t block) {\n  (void)block;\n  const float *x = args->tensors[0].data;\n  float *y = args->tensors[1].data;\n"
        "  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) y[i] += x[i];\n}\n", encoding="utf-8")
    slipstream.compile(str(tmp_path / "many.json"), str(tmp_path / "many.slipc"))
    many = slip_torch.load(tmp_path / "many.slipc", "slip_test")
    y = torch.zeros(3)
    many(*(torch.full((3,), float(i)) for i in range(count)), y)
    assert y.tolist() == [float(sum(range(count)))] * 3


def test_many_threads(axpy):
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(100):
            x, y = (torch.randint(-1000, 1000, (300,), generator=generator).float() for _ in range(2))
            expected = y + 3 * x  # exact: small integers
            axpy(x, y, 3.0)
            if not torch.equal(y, expected):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_refusal_belongs_to_its_thread(axpy):
    """Failures are kept by thread until they become exceptions."""
    texts = {}

    def work(size):
        for _ in range(50):
            try:
                axpy(torch.ones(size), torch.ones(size + 1), 1.0)
            except slipstream.InvalidArgumentError as error:
                texts.setdefault(size, set()).add(str(error))

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for size in (3, 5, 7):
        assert len(texts[size]) == 1 and f"N = {size}" in next(iter(texts[size]))


def test_a_refusal_belongs_to_its_call(axpy):
    """One that torch.ops has raised already is not taken for the reason of a later failure, which is not the kernel's."""
    with pytest.raises(RuntimeError, match="N = 2"):
        axpy.op(torch.ones(2), torch.ones(3), 1.0)
    class Fails(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise RuntimeError("of the mode")

    x, y = torch.ones(2), torch.ones(2)
    with Fails(), pytest.raises(RuntimeError, match="of the mode") as caught:
        axpy(x, y, 1.0)
    assert not isinstance(caught.value, slipstream.SlipError)


def test_an_operator_is_one_a_process(axpy, mix):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.operator = axpy

    assert copy.copy(axpy) is axpy and copy.deepcopy([axpy])[0] is axpy and copy.deepcopy(Module()).operator is axpy
    assert pickle.loads(pickle.dumps(axpy)) is axpy
    assert {axpy: 1}[axpy] == 1 and axpy != mix


def test_how_it_looks(axpy, mix):
    """repr, help and an editor's hints tell the parameters."""
    assert repr(axpy) == "<slipstream.torch.Operator slip_test::axpy(in x: f32[N], inout y: f32[N], a: f32) -> (y) on cpu>"
    assert str(inspect.signature(axpy)) == "(x: 'in f32[N]', y: 'inout f32[N]', a: 'f32')" and axpy.__name__ == "axpy"
    assert list(inspect.signature(mix).parameters) == ["x", "y", "s", "count", "small", "on", "a"]
    assert "(Tensor x, Tensor(a1!) y, float a) -> ()" in axpy.schema
    frame = axpy.frame(torch.ones(2), torch.zeros(2), 1.0)
    assert repr(frame) == "<slipstream.torch.CallFrame of slip_test::axpy: 2 tensors and 1 scalars on cpu:0>"
    assert "f32[N]" in repr(slip_torch.CallSignature("(out y: f32[N])", "fill")) and "(a0!)" in repr(slip_torch.RegistrationSignature("(out y: f32[N])"))


def test_what_holds_addresses_is_not_pickled(axpy):
    frame = axpy.frame(torch.ones(2), torch.zeros(2), 1.0)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="CallFrame of slip_test::axpy .*this process.*build it from the arguments"):
            attempt(frame)
    for signature in (slip_torch.CallSignature("(in x: f32[N], inout y: f32[N]) -> (y)", "fill"), slip_torch.RegistrationSignature("(in x: f32[N], inout y: f32[N]) -> (y)")):
        for other in (pickle.loads(pickle.dumps(signature)), copy.deepcopy(signature)):
            assert other.signature == signature.signature and repr(other) == repr(signature)


def test_the_interpreter_goes_on_while_an_operator_runs(context, tmp_path):
    """The operator waits for another Python thread, in C: with the interpreter's lock held it would wait for ever."""
    (tmp_path / "await.json").write_text(
        '{"slip": 1, "name": "await_flag", "contract": "kernel", "entry": {"name": "await_flag", "symbol": "await_orchestrate", "signature": "(inout flag: i32[1], out seen: i32[1])"}, '
        '"kernels": [{"name": "look", "signature": "(inout flag: i32[1], out seen: i32[1])"}], "sources": ["await.c"]}', encoding="utf-8")
    (tmp_path / "await.c").write_text(
        '#include "slip_program.h"\n'
        "void await_orchestrate(slip_orch_t *o, const slip_oargs_t *args) {\n  slip_task_builder_t task;\n  slip_task_begin(&task, SLIP_KERNEL_look, 1);\n"
        "  slip_task_inout(&task, &args->tensors[0]);\n  slip_task_out_existing(&task, &args->tensors[1]);\n  slip_task_submit(o, &task);\n}\n"
        "void look(const slip_kargs_t *args, slip_block_t block) {\n  (void)block;\n  volatile int32_t *flag = args->tensors[0].data;\n  flag[0] = 1;\n"
        "  for (int64_t i = 0; i < 20000000000 && flag[0] != 2; ++i) {}\n  *(int32_t *)args->tensors[1].data = flag[0];\n}\n", encoding="utf-8")
    slipstream.compile(str(tmp_path / "await.json"), str(tmp_path / "await.slipc"))
    operator = slip_torch.load(tmp_path / "await.slipc", "slip_test")
    flag, seen = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    thread = threading.Thread(target=operator, args=(flag, seen))
    thread.start()
    while flag.item() != 1:
        pass
    flag.fill_(2)
    thread.join()
    assert seen.item() == 2


def test_more_inputs_than_a_schema_has_room_for(context, tmp_path):
    """PyTorch's schemas have 64 arguments: the inputs become a list."""
    count = 70
    (tmp_path / "crowd.json").write_text(
        '{"slip": 1, "name": "crowd", "contract": "kernel", "entry": {"name": "crowd", "symbol": "crowd_orchestrate", "signature": "(inout y: f32[N], a: f32, in %s, out z: f32[N]) -> (z, y)"}, '
        '"kernels": [{"name": "gain", "signature": "(in x: f32[N], inout y: f32[N], a: f32)"}, {"name": "copy", "signature": "(in y: f32[N], out z: f32[N])"}], "sources": ["crowd.c"]}'
        % ", ".join(f"x{i}: f32[N]" for i in range(count)), encoding="utf-8")
    (tmp_path / "crowd.c").write_text(
        '#include "slip_program.h"\n'
        "void crowd_orchestrate(slip_orch_t *o, const slip_oargs_t *args) {\n  slip_task_builder_t task;\n"
        f"  for (int i = 1; i <= {count}; ++i) {{\n    slip_task_begin(&task, SLIP_KERNEL_gain, 1);\n    slip_task_in(&task, &args->tensors[i]);\n"
        "    slip_task_inout(&task, &args->tensors[0]);\n    slip_task_scalar(&task, args->scalars[0]);\n    slip_task_submit(o, &task);\n  }\n"
        f"  slip_task_begin(&task, SLIP_KERNEL_copy, 1);\n  slip_task_in(&task, &args->tensors[0]);\n  slip_task_out_existing(&task, &args->tensors[{count + 1}]);\n"
        "  slip_task_submit(o, &task);\n}\n"
        "void gain(const slip_kargs_t *args, slip_block_t block) {\n  (void)block;\n  const float *x = args->tensors[0].data;\n  float *y = args->tensors[1].data;\n"
        "  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) y[i] += x[i] * slip_bits_as_f32(args->scalars[0]);\n}\n"
        "void copy(const slip_kargs_t *args, slip_block_t block) {\n  (void)block;\n  const float *y = args->tensors[0].data;\n  float *z = args->tensors[1].data;\n"
        "  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) z[i] = y[i];\n}\n", encoding="utf-8")
    slipstream.compile(str(tmp_path / "crowd.json"), str(tmp_path / "crowd.slipc"))
    crowd = slip_torch.load(tmp_path / "crowd.slipc", "slip_test")
    assert crowd.schema == "slip_test::crowd(Tensor(a0!) y, float a, Tensor[] inputs, Tensor(a72!) z) -> ()"
    assert crowd._kernels["cpu"].op >= 0
    inputs, y, z = [torch.full((3,), float(i)) for i in range(count)], torch.zeros(3), torch.zeros(3)
    result = crowd(y, 2.0, *inputs, z)
    assert result[0] is z and result[1] is y and z.tolist() == y.tolist() == [2.0 * sum(range(count))] * 3
    torch.ops.slip_test.crowd(y, -2.0, inputs, z)
    assert z.tolist() == [0.0] * 3
    with pytest.raises(RuntimeError, match="list of inputs has 69 tensors, expected 70"):
        torch.ops.slip_test.crowd(y, 1.0, inputs[1:], z)
    with pytest.raises(slipstream.InvalidArgumentError, match="parameter 5 'x3'"):
        crowd(y, 1.0, *inputs[:3], torch.zeros(4), *inputs[4:], z)
    from torch.multiprocessing.reductions import StorageWeakRef

    for some, last in ((inputs, 3), (inputs, 4), (inputs[1:], 3), (inputs + inputs, 3)):  # accepted, and refused for three reasons: no element of the list is kept
        given = [t.clone() for t in some]
        watched = [StorageWeakRef(t.untyped_storage()) for t in given]
        try:
            torch.ops.slip_test.crowd(torch.zeros(3), 1.0, given, torch.zeros(last))
        except RuntimeError:
            pass
        del given
        assert all(ref.expired() for ref in watched)
    crowd.frame(y, 1.0, *inputs, z).launch()
    assert z.tolist() == [float(sum(range(count)))] * 3
    assert set(torch.library.opcheck(crowd.op, (y, 1.0, inputs, z)).values()) == {"SUCCESS"}


def test_nothing_is_kept_of_a_call(axpy, artifacts, context):
    """Every handle that PyTorch hands to a kernel is given back: accepted, refused by a rule, refused before close."""
    from torch.multiprocessing.reductions import StorageWeakRef

    def leaves(call, *makers):
        tensors = [make() for make in makers]
        watched = [StorageWeakRef(t.untyped_storage()) for t in tensors]
        try:
            call(*tensors)
        except RuntimeError:
            pass
        del tensors
        return sum(not ref.expired() for ref in watched)

    def four():
        return torch.ones(4)

    assert leaves(lambda x, y: axpy(x, y, 1.0), four, four) == 0
    assert leaves(lambda x, y: axpy.op(x, y, 1.0), four, four) == 0
    assert leaves(lambda x, y: axpy.frame(x, y, 1.0).launch(), four, four) == 0
    for call in (axpy, axpy.op, axpy.frame):
        assert leaves(lambda x, y, c=call: c(x, y, 1.0), four, lambda: torch.ones(5)) == 0
        assert leaves(lambda x, y, c=call: c(x, y, 1e300), four, four) == 0
        assert leaves(lambda x, y, c=call: c(x, y, 1.0), four, lambda: torch.ones(4, dtype=torch.complex64)) == 0
    # The negative control: a frame that lives keeps its tensors.
    kept = []
    assert leaves(lambda x, y: kept.append(axpy.frame(x, y, 1.0)), four, four) == 2
