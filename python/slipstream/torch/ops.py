# SPDX-License-Identifier: Apache-2.0
"""init, load, register, close: operators of PyTorch made from artifacts."""
import atexit
import inspect
import keyword
import os
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional

import torch

from slipstream import _core, _torch

from . import devices, errors, locks, registration, signature, transforms

# Kept where a reload of this module finds it again: PyTorch's registrations and the open contexts outlive one.
_kept: Dict[str, Any] = vars(_torch).setdefault("kept", {})
_lock = _kept.setdefault("lock", locks.ForkLock())
_contexts: Dict[str, Any] = _kept.setdefault("contexts", {})  # "cpu:0" -> _Open
_anchors: list = _kept.setdefault("anchors", [])  # what running calls may still use: never given back (python/src/torch/op.h)
_operators: Dict[str, "Operator"] = _kept.setdefault("operators", {})
_forward_ad = torch.autograd.forward_ad
_is_compiling = torch.compiler.is_compiling
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)

# Keys under which a tensor is no plain dense one. Without a kernel there, PyTorch would materialise conjugate and negative views, or name a backend that nobody asked for.
_REFUSED_KEYS = {
    "Conjugate": "a conjugate view; pass x.resolve_conj()",
    "Negative": "a negative view; pass x.resolve_neg()",
    "ZeroTensor": "a zero tensor without storage; pass x.clone()",
    "SparseCPU": "a sparse tensor; pass x.to_dense()",
    "SparseCUDA": "a sparse tensor; pass x.to_dense()",
    "SparsePrivateUse1": "a sparse tensor; pass x.to_dense()",
    "SparseCsrCPU": "a sparse compressed tensor; pass x.to_dense()",
    "SparseCsrCUDA": "a sparse compressed tensor; pass x.to_dense()",
    "QuantizedCPU": "a quantised tensor; pass x.dequantize() or x.int_repr()",
    "QuantizedCUDA": "a quantised tensor; pass x.dequantize() or x.int_repr()",
    "MkldnnCPU": "a tensor in oneDNN's own layout; pass x.to_dense()",
    "NestedTensorCPU": "a nested tensor; pass its components one by one",
    "NestedTensorCUDA": "a nested tensor; pass its components one by one",
    "AutogradNestedTensor": "a nested tensor; pass its components one by one",
}


def _attach() -> bool:
    """Binds PyTorch's C shim once. False where there is none that fits: operators then run through the interpreter."""
    with _lock:
        if "attached" in _kept:
            return _kept["attached"]
        folder = os.path.join(os.path.dirname(torch.__file__), "lib")
        cuda = os.path.join(folder, "libtorch_cuda.so")
        missing = _torch.attach(os.path.join(folder, "libtorch_cpu.so"), os.path.join(folder, "libc10.so"), cuda if os.path.exists(cuda) else None)
        fits = missing is None
        if fits:
            _in_plain_thread(_probe)
        _kept["attached"] = fits
        return fits


def _in_plain_thread(work: Callable[[], None]) -> None:
    """Runs |work| where no inference mode, default device, fake mode or transform of the caller's holds: all of them belong to a thread."""
    failures: list = []

    def run():
        try:
            work()
        except BaseException as error:  # noqa: B902  handed over, raised below
            failures.append(error)

    thread = threading.Thread(target=run, name="slipstream.torch")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _probe() -> None:
    """Whether the C path reads requires_grad and counts versions rightly: it asks functions that are not of the stable ABI (python/src/torch/shim.h)."""
    library = torch.library.Library("slipstream_internal", "FRAGMENT")
    _anchors.append(library)
    probes = _torch.probes()
    leaf = torch.zeros(2, requires_grad=True)
    with torch.enable_grad():
        grown = leaf * 2
    if probes & 1:
        library.define("requires_grad(Tensor x) -> bool")
        _anchors.append(_torch.implement(-1, "slipstream_internal", "requires_grad", "CPU"))
        ask = torch.ops.slipstream_internal.requires_grad.default
        cases = ((torch.zeros(2), False), (leaf, True), (grown, True), (grown.detach(), False), (torch.zeros(2, dtype=torch.int64), False),
                 (torch.nn.Parameter(torch.zeros(2)), True), (torch.nn.Parameter(torch.zeros(2), requires_grad=False), False))
        _torch.believe(all(ask(tensor) is expected for tensor, expected in cases), None)
    if probes & 2:
        library.define("written(Tensor(a!) x) -> ()")
        _anchors.append(_torch.implement(-2, "slipstream_internal", "written", "CPU"))
        tell = torch.ops.slipstream_internal.written.default
        right = True
        for tensor in (torch.zeros(2), torch.zeros(4)[1:], grown.detach(), torch.zeros(0)):
            before = tensor._version
            tell(tensor)
            right = right and tensor._version == before + 1
        with torch.inference_mode():
            tell(torch.zeros(2))  # has no version; must do nothing
        _torch.believe(None, right)


class _Open(NamedTuple):
    """A context: our share, which keeps it open while operators may run, the one that init() hands out, and the gate of the calls."""

    share: Any
    shown: Any
    options: Dict[str, Any]
    gate: int
    process: int


def init(device=None, **options: Any):
    """Opens the kernel-mode context of a device and returns a share of it.

    :param device: PyTorch's name of it; None: PyTorch's default device. It must be current already: nothing is selected. One context a device; the same options again give the same.
    :param options: those of ``slipstream.kernel.open``.

    Claims the process for kernel mode. close() closes it, at the latest when the interpreter ends; closing the returned share alone does not stop the operators. Any thread; not inside a
    capture. Raises what ``slipstream.kernel.open`` does: ModeConflictError, ConflictError (other options), ForkedError, CaptureUnsupportedError, InvalidArgumentError ...
    """
    device = devices.resolve(device)
    name = f"{devices.adapter_of(device.type).platform}:{device.index}"
    with _lock:
        known = _contexts.get(name)
        usable = known is not None and known.process == os.getpid() and known.share.initialized
        if usable and known.options == options and known.shown.initialized:
            return known.shown
        shown = _core.open(name, **options)
        if usable:  # the same context, asked for in other words, or after its share was closed
            _contexts[name] = known._replace(shown=shown, options=dict(options))
            if known.shown.initialized:
                known.shown.close()
            return shown
        share = _core.open(name, **options)
        # Registered after slipstream's own exit handler and PyTorch's, and so run before them, while the device is still there.
        if not _contexts:
            atexit.unregister(_at_exit)  # of a context that was closed
            atexit.register(_at_exit)
        _contexts[name] = _Open(share, shown, dict(options), _torch.gate(), os.getpid())
        return shown


def _context(device: torch.device) -> _Open:
    adapter = devices.adapter_of(device.type)
    known = _contexts.get(f"{adapter.platform}:{device.index}")
    if known is None or not known.share.initialized:
        what = "there is no kernel-mode context" if known is None else "there is no open kernel-mode context"
        raise errors.invalid_state(f"{what} of {device}; call slipstream.torch.init({device.type!r}) first")
    return known


class _Kernel(NamedTuple):
    """A real kernel of an operator on one device type."""

    artifact: Any
    callable: Any
    device: torch.device
    gate: int
    op: int  # the C side's number; -1: runs through the interpreter
    handle: Optional[int]  # of the registration in the C side


def _annotation(param) -> str:
    if param.shape is None:
        return param.dtype
    return f"{param.direction} {param.dtype}[{','.join('?' if d is None else str(d) for d in param.shape)}]"


def _passes(value, param) -> bool:
    """Whether PyTorch hands |value| on to a kernel."""
    return isinstance(value, torch.Tensor) if param.shape is not None else type(value) is not int or -1 << 63 <= value < 1 << 63


def _by_name(name: str, sig: str) -> "Operator":
    """What a pickled Operator is: the one of that name in this process."""
    found = _operators.get(name)
    if found is None:
        raise errors.invalid_state(f"{name} is not registered in this process, and a pickled operator is only its name; call slipstream.torch.init() and load() or register() here first, "
                                   "in a module that the other process imports for example")
    if str(found.signature) != sig:
        raise errors.conflict(f"{name} has the signature {found.signature} in this process, but {sig} where it was pickled; load the same artifact in both")
    return found


class Operator:
    """An operator of PyTorch that runs an artifact. Call it as a function: it returns the caller's own objects for the return aliases.

    :ivar name: ``"slip::axpy"``.
    :ivar op: the operator itself, which mutates and returns nothing: ``torch.ops.slip.axpy.default``.
    :ivar schema: its schema.
    :ivar signature: the callable's signature.
    """

    def __init__(self, name: str, registered: registration.RegistrationSignature, library, backward):
        self.name, self._registered, self._library = name, registered, library
        self.signature = registered.signature
        space, _, plain = name.partition("::")
        self.op = getattr(getattr(torch.ops, space), plain).default
        # The function in C++ that calling |op| comes to, where this PyTorch has it by that name: a call in Python less. Compilers look for |op|.
        self._direct = getattr(self.op, "_op", self.op)
        self._packed = registered.packed[1] != 0
        self._names = tuple(p.name for p in registered._params)
        self._call = signature.CallSignature(self.signature, name)
        self._kernels: Dict[str, _Kernel] = {}
        self._python_keys: set = set()
        self._single = registered._returns[0] if len(registered._returns) == 1 else None
        exact = {"bool": bool, "f16": float, "bf16": float, "f32": float, "f64": float}
        self._scalars = tuple((i, exact.get(p.dtype, int)) for i, p in enumerate(registered._params) if p.shape is None)
        self._function = self._backward = None
        self._derive(backward)
        # For help(), and the hints that an editor shows.
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__name__, self.__signature__ = plain, inspect.Signature([inspect.Parameter(p.name, kind, annotation=_annotation(p)) for p in registered._params])

    def _derive(self, backward) -> None:
        """Takes |backward| for the derivative of calls from now on: who runs the cell of a notebook again means the function that it defines now."""
        if backward is not None and backward is not self._backward:
            self._function, self._backward = _autograd_function(self, backward), backward

    @property
    def schema(self) -> str:
        """Its schema, as PyTorch has it."""
        return str(self.op._schema)

    def __copy__(self):
        return self  # one a process, as a function is

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _by_name, (self.name, str(self.signature))

    @property
    def artifacts(self) -> Dict[str, Any]:
        """Device type -> artifact."""
        return {type: kernel.artifact for type, kernel in self._kernels.items()}

    def _ordered(self, args, named):
        try:
            return args + tuple(named[name] for name in self._names[len(args):]) if len(named) == len(self._names) - len(args) else None
        except KeyError:
            return None

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Runs it, one argument a parameter, outputs included; returns the caller's own objects for the return aliases. See docs/pytorch.md for what is refused."""
        if named:
            args = self._ordered(args, named)
            if args is None:
                raise errors.wrong_type(f"{self.name}: expected the arguments {', '.join(self._names)}; outputs are passed, too")
        if _forward_ad._current_level >= 0:
            transforms.refuse_tangents(self.name, self._registered, args)
        if self._function is not None and torch.is_grad_enabled():
            if any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
                return self._differentiate(args)
        if _is_compiling():
            self.op(*self._registered.pack(args))
        elif self._scalars or self._packed:
            self._run(args)
        else:  # _run() spelt out, for what it costs
            try:
                self._direct(*args)
            except _core.SlipError:
                raise
            except RuntimeError as error:
                raise self._typed(error, args) from None
        return args[self._single] if self._single is not None else self._registered.aliases(args)

    def _strict(self, args):
        """PyTorch takes any object for a bool, a bool for a number and a tensor for either; here the rules of a call hold, and typed boxes are read."""
        for index, exact in self._scalars:
            value = args[index]
            if type(value) is not exact and not isinstance(value, _SYMBOLS):
                value = signature.scalar(value, self._registered._params[index].dtype, self._call.where(index))
                args = args[:index] + (value,) + args[index + 1:]
        return args

    def _run(self, args):
        if len(args) == len(self._names):
            args = self._strict(args)
        try:
            if self._packed:
                self._direct(*self._registered.pack(args))
            else:
                self._direct(*args)
        except _core.SlipError:
            raise
        except RuntimeError as error:
            raise self._typed(error, args) from None

    def _differentiate(self, args):
        if _is_compiling():
            return self._function.apply(*args)
        if len(args) == len(self._names):
            args = self._strict(args)
        try:
            return self._function.apply(*args)
        except _core.SlipError:
            raise
        except RuntimeError as error:
            raise self._typed(error, args) from None

    def _typed(self, error, args):
        """What the kernel said of itself, for the exception that PyTorch made of it; the rules of a call for what PyTorch did not pass on; |error| if it is PyTorch's own."""
        failure = _torch.take_failure()  # this thread's: the kernel's, or none, or one that torch.ops has raised before
        if failure is not None and failure[3] in str(error):
            code, platform_code, name, text = failure
            if "requires grad" in text and self._function is None:
                text += ", or name backward= when registering"
            return errors.make(code, platform_code, name, text)
        if len(args) != len(self._names) or not all(_passes(a, p) for a, p in zip(args, self._registered._params)):
            try:
                self.frame(*args)
            except _core.SlipError as refusal:
                return refusal
        return error

    def frame(self, *args: Any) -> signature.CallFrame:
        """A checked call, to be launched later; see CallFrame."""
        types = [a.device.type for a in args if isinstance(a, torch.Tensor) and a.device.type != "meta"] or list(self._kernels)
        kernel = next((self._kernels[t] for t in types if t in self._kernels), None)  # whatever else there is, its rules will name
        if kernel is None:
            raise errors.unsupported(f"{self.name} has no kernel for {types[0]}, only for {', '.join(self._kernels)}; load an artifact of that platform")
        return self._call.bind(*args, device=kernel.device, _kernel=kernel)

    def __repr__(self):
        return f"<slipstream.torch.Operator {self.name}{self.signature} on {', '.join(self._kernels) or 'no device'}>"


def _autograd_function(operator: Operator, backward: Callable):
    """The operator's autograd.Function: outside the operator, so that the operator itself stays a plain mutation."""
    params = operator._registered._params
    written = tuple(i for i, p in enumerate(params) if p.direction in ("out", "inout"))
    returned = operator._registered._returns
    # The compiler takes the functions below apart; it knows what to do with these, and not with an Operator.
    name, op, (first, count), tensors = operator.name, operator.op, operator._registered.packed, tuple(p.shape is not None for p in params)

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(*args):
            if count:
                op(*args[:first], list(args[first:first + count]), *args[first + count:])
            else:
                op(*args)
            outs = tuple(args[i] for i in written)
            return outs[0] if len(outs) == 1 else outs

        @staticmethod
        def setup_context(ctx, inputs, output):  # apart from forward, which torch.func wants
            ctx.mark_dirty(*(inputs[i] for i in written))
            ctx.save_for_backward(*(a for a in inputs if isinstance(a, torch.Tensor)))
            ctx.scalars = tuple(None if isinstance(a, torch.Tensor) else a for a in inputs)

        @staticmethod
        def backward(ctx, *grads):
            saved = iter(ctx.saved_tensors)
            args = tuple(next(saved) if tensor else scalar for tensor, scalar in zip(tensors, ctx.scalars))
            answer = backward(args, *grads)
            answer = answer if isinstance(answer, tuple) else (answer,)
            if len(answer) != len(tensors):
                raise errors.invalid(f"{name}: backward returned {len(answer)} gradients, expected one a parameter ({len(tensors)}), None where there is none")
            return answer

    class Apply:
        """Function.apply with the aliases that the signature declares."""

        @staticmethod
        def apply(*args):
            outs = Function.apply(*args)
            outs = outs if isinstance(outs, tuple) else (outs,)
            by_index = dict(zip(written, outs))
            if not returned:
                return None
            return by_index[returned[0]] if len(returned) == 1 else tuple(by_index[i] for i in returned)

    return Apply


def _refuse(name: str, what: str, params):
    def refuse(*args):
        raise errors.invalid(f"{name}: one of its tensors ({', '.join(p.name for p in params if p.shape is not None)}) is {what}")

    return refuse


def _refuse_grad(operator: Operator):
    """The Autograd kernel where the C side cannot see requires_grad."""
    params = operator._registered._params

    def autograd(*args):
        if torch.is_grad_enabled():
            for index, value in enumerate(operator._registered.unpack(args)):
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    raise errors.invalid(f"{operator.name}: parameter {index} '{params[index].name}' ({params[index].direction}): the tensor requires grad and autograd is on, but the operator "
                                         "has no derivative; call it under torch.no_grad(), detach, or name backward= when registering")
        with torch._C._AutoDispatchBelowAutograd():
            operator.op(*args)

    return autograd


def _count_versions(operator: Operator):
    """The ADInplaceOrView kernel where the C side cannot count versions."""
    written = tuple(i for i, p in enumerate(operator._registered._params) if p.direction in ("out", "inout"))

    def count(*args):
        with torch._C._AutoDispatchBelowADInplaceOrView():
            operator.op(*args)
        flat = operator._registered.unpack(args)
        torch.autograd.graph.increment_version([flat[i] for i in written])

    return count


def _interpreted(operator: Operator, type: str):
    """The real kernel through the interpreter: where the shim is missing, its table is full, or a vendor's format must be asked for."""

    def kernel(*args):
        found = operator._kernels.get(type)
        if found is None:
            raise errors.invalid_state(f"{operator.name}: called after close; load the artifact again")
        operator._call.bind(*operator._registered.unpack(args), device=found.device, _kernel=found).launch()

    return kernel


def _implement(operator: Operator, artifact, device: torch.device, callable, gate: int) -> _Kernel:
    adapter = devices.adapter_of(device.type)
    space, _, plain = operator.name.partition("::")
    old = operator._kernels.get(device.type)
    if old is not None and old.handle is not None:
        _torch.forget(old.handle)
    number, handle = -1, None
    if _attach() and not any(p.layout == "nz" for p in operator._registered._params) and device.type not in operator._python_keys:
        number = _torch.create(gate, callable.context.handle, callable.id, callable.signature.handle, operator.name, adapter.stream, adapter.platform, adapter.hold, *operator._registered.packed,
                               adapter.ask,
                               (callable, callable.context, callable.signature, artifact, adapter))
    if number >= 0:
        handle = _torch.implement(number, space, plain, adapter.key)
    elif device.type not in operator._python_keys:
        operator._library.impl(plain, _interpreted(operator, device.type), adapter.key)
        operator._python_keys.add(device.type)
    return _Kernel(artifact, callable, device, gate, number, handle)


def _new_operator(name: str, sig, backward) -> Operator:
    space, _, plain = name.partition("::")
    registered = registration.RegistrationSignature(sig)
    library = torch.library.Library(space, "FRAGMENT")
    registered.define(library, plain)
    operator = Operator(name, registered, library, backward)
    for key, what in _REFUSED_KEYS.items():
        library.impl(plain, _refuse(name, what, registered._params), key)
    library.impl(plain, transforms.kernel(operator.op, name, registered), transforms.KEY)
    grad, version = _torch.believe(None, None) if _attach() else (False, True)  # kernels in Python count versions themselves
    if not grad:
        library.impl(plain, _refuse_grad(operator), "Autograd")
    if not version:
        library.impl(plain, _count_versions(operator), "ADInplaceOrView")
    return operator


def _check_place(name: str, space: str, plain: str) -> None:
    """Refuses names under which torch.ops would not find the operator: its namespaces are objects with attributes of their own."""
    if space in ("aten", "prim", "prims"):
        raise errors.invalid(f"operator name '{name}': the namespace {space} is PyTorch's own; choose another namespace")
    if not space.isascii() or keyword.iskeyword(space):
        raise errors.invalid(f"operator name '{name}': '{space}' is no namespace that a PyTorch schema can say; use letters, digits and _")
    found = getattr(torch.ops, space, None)
    if not isinstance(found, torch._ops._OpNamespace):
        raise errors.invalid(f"operator name '{name}': torch.ops.{space} is no namespace of operators, but PyTorch's own; choose another namespace")
    taken = vars(found).get(plain, getattr(type(found), plain, None))
    if taken is not None and not isinstance(taken, torch._ops.OpOverloadPacket):
        raise errors.invalid(f"operator name '{name}': torch.ops.{space}.{plain} is no operator, but PyTorch's own; choose another name")


def register(artifact, name: str, *, device=None, backward: Optional[Callable] = None) -> Operator:
    """Makes ``torch.ops.<namespace>.<name>`` from an artifact and returns the Operator.

    :param artifact: a slipstream.Artifact of kernel contract, or its path.
    :param name: ``"namespace::name"``.
    :param device: whose context runs it; None: the default device. The same name may be registered for several device types, with equal signatures.
    :param backward: ``backward(args, *grads) -> gradients``: the derivative. |args| are the call's arguments (written tensors as they are after the call), |grads| belong to the written
        tensors in order; one gradient a parameter is returned, None where there is none. Without it tensors that require grad are refused while autograd is on.

    The same artifact again gives the same Operator; a |backward| that is given then takes the place of the former one. ConflictError: the name has another signature or artifact, or was
    registered without a derivative. InvalidStateError: no init() yet, or closed. Any thread; not inside a capture.
    """
    space, found, plain = name.partition("::")
    if not found or not space.isidentifier() or not plain.isidentifier():
        raise errors.invalid(f"operator name '{name}': expected 'namespace::name', both of them identifiers of letters, digits and _")
    _check_place(name, space, plain)
    if not isinstance(artifact, _core.Artifact):
        artifact = _core.load(artifact)
    device = devices.resolve(device)
    with _lock:
        context = _context(device)
        operator = _operators.get(name)
        if operator is not None:
            if operator.signature != artifact.signature:
                raise errors.conflict(f"{name} is registered with the signature {operator.signature}, not {artifact.signature}; choose another name")
            if backward is not None and operator._function is None:
                raise errors.conflict(f"{name} is registered without a derivative; choose another name, or name backward= the first time")
            known = operator._kernels.get(device.type)
            if known is not None and known.callable.context.initialized:
                if known.artifact.key == artifact.key and known.device == device:
                    operator._derive(backward)
                    return operator
                raise errors.conflict(f"{name} runs artifact {known.artifact.name} ({known.artifact.key}) on {known.device} already, not {artifact.name} ({artifact.key}) on {device}; "
                                      "choose another name, or call close(), init() and load the new one")
        callable = context.share.prepare(artifact)  # before anything is registered: it may fail, PyTorch's registrations do not
        if operator is None:
            operator = _new_operator(name, artifact.signature, backward)
            _operators[name] = operator
        operator._kernels[device.type] = _implement(operator, artifact, device, callable, context.gate)
        operator._derive(backward)
        return operator


def load(path, namespace: str = "slip", *, device=None, backward: Optional[Callable] = None) -> Operator:
    """Loads an artifact and registers it as ``torch.ops.<namespace>.<artifact's name>``; see register()."""
    artifact = path if isinstance(path, _core.Artifact) else _core.load(path)
    return register(artifact, f"{namespace}::{artifact.name}", device=device, backward=backward)


def close(device=None) -> None:
    """Closes the contexts of |device| (None: of all). Operators refuse calls from then on, until init() and register() again.

    Waits for calls that run. A close that fails keeps what is left and may be repeated; see ``slipstream.kernel.Context.close``. Not inside a capture, nor from inside a call.
    """
    with _lock:
        wanted = None if device is None else devices.resolve(device)
        for name, known in list(_contexts.items()):
            if wanted is not None and name != f"{devices.adapter_of(wanted.type).platform}:{wanted.index}":
                continue
            if known.process == os.getpid():
                _torch.shut(known.gate)
            try:
                known.shown.close()
                known.share.close()
            except _core.SlipError:
                if known.share.initialized:  # nothing was done, in a capture for example: operators go on
                    _torch.reopen(known.gate)
                raise
            del _contexts[name]


def _at_exit():
    try:
        if all(known.process == os.getpid() for known in _contexts.values()):
            close()
    except _core.SlipError:
        pass  # a device that is gone: the process ends with it
