# SPDX-License-Identifier: Apache-2.0
"""RegistrationSignature: what PyTorch's compiler must know of an operator - schema and fake kernel. Makes nothing real and asks nothing of a device."""
import keyword
import re
from typing import Any, Optional

import torch

from slipstream import _core

from . import errors
from .signature import DTYPES

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Words that PyTorch's schema parser, or a Python caller by name, trips over.
_RESERVED = frozenset(keyword.kwlist) | {"Tensor", "Scalar", "int", "float", "bool", "str", "SymInt", "Device", "Layout", "Generator"}
_MAX_ARGUMENTS = 64  # of a schema in PyTorch
_SCALARS = {"bool": "bool", "f16": "float", "bf16": "float", "f32": "float", "f64": "float"}


def _fake_registrar():
    """torch.library.register_fake, or impl_abstract as it was called before 2.4; UnsupportedError if there is neither."""
    registrar = getattr(torch.library, "register_fake", None) or getattr(torch.library, "impl_abstract", None)
    if registrar is None:
        raise errors.unsupported(f"PyTorch {torch.__version__} has neither torch.library.register_fake nor impl_abstract; install 2.4 or later")
    return registrar


def _symbolic(value: Any) -> bool:
    return not isinstance(value, int)


def _contiguous(tensor: torch.Tensor) -> Optional[bool]:
    """None if it cannot be told yet, because sizes are unbacked symbols."""
    try:
        return bool(tensor.is_contiguous())
    except Exception as error:  # a symbolic-shapes exception whose class differs from version to version
        if "data-dependent" in str(error) or "GuardOnDataDependent" in type(error).__name__:
            return None
        raise


class RegistrationSignature:
    """Schema and fake kernel of an operator.

    The operator mutates its OUT and INOUT tensors and returns nothing: PyTorch's functionalisation understands exactly this. Refused (InvalidArgumentError, UnsupportedError): unsigned
    64-bit scalars, which a schema's int cannot hold; operators without a tensor, or without one that is written; names that a schema cannot say; return aliases that are not written.

    PyTorch's schemas have at most 64 arguments. Above that the longest run of input tensors becomes one list, ``Tensor[] inputs``; an Operator and fake() still take them one by one.

    :param signature: a slipstream.Signature, an Artifact, or the signature's text.
    """

    def __init__(self, signature):
        if isinstance(signature, str):
            signature = _core.Signature(signature)
        self.signature = getattr(signature, "signature", signature)
        self._params = tuple(self.signature.params)
        self._returns = tuple(self.signature.returns)
        self._check()
        self._name = "fake"
        self.packed = self._longest_run() if len(self._params) > _MAX_ARGUMENTS else (0, 0)  # (first, count)
        if len(self._params) - max(0, self.packed[1] - 1) > _MAX_ARGUMENTS:
            raise errors.unsupported(f"the operator has {len(self._params)} parameters; PyTorch takes {_MAX_ARGUMENTS}, and one run of inputs as a list; put the inputs side by side")

    def _longest_run(self):
        best, start = (0, 0), None
        for index, param in enumerate(self._params + (None,)):
            if param is not None and param.direction == "in":
                start = index if start is None else start
            else:
                if start is not None and index - start > best[1]:
                    best = (start, index - start)
                start = None
        return best

    def pack(self, args) -> tuple:
        """The arguments as the schema has them, from one a parameter."""
        first, count = self.packed
        return args[:first] + (list(args[first:first + count]),) + args[first + count:] if count else args

    def unpack(self, args) -> tuple:
        """One argument a parameter, from those of the schema."""
        first, count = self.packed
        return args[:first] + tuple(args[first]) + args[first + 1:] if count else args

    def _check(self):
        seen = set()
        for index, param in enumerate(self._params):
            if not _IDENTIFIER.match(param.name) or param.name in _RESERVED:
                raise errors.invalid(f"parameter {index} '{param.name}': not a name that a PyTorch schema can say; rename it")
            if param.name in seen:
                raise errors.invalid(f"parameter {index} '{param.name}': the name is used twice")
            seen.add(param.name)
            if param.shape is None and param.direction != "scalar":
                raise errors.unsupported(f"parameter {index} '{param.name}': a scalar output; PyTorch's operators write tensors only, make it a tensor of rank 0")
            if param.shape is None and param.dtype == "u64":
                raise errors.unsupported(f"parameter {index} '{param.name}': a u64 scalar, which PyTorch's schema int (signed, 64 bits) cannot hold; declare i64 or u32")
        if not any(p.shape is not None for p in self._params):
            raise errors.unsupported("the operator has no tensor, so PyTorch could not choose a device for it; call the callable directly")
        if not any(p.direction in ("out", "inout") for p in self._params):
            raise errors.unsupported("the operator writes nothing: PyTorch's compiler would drop it; declare what it writes as out or inout")
        for index in self._returns:
            if not 0 <= index < len(self._params) or self._params[index].direction not in ("out", "inout"):
                raise errors.invalid(f"return alias {index}: not a parameter that is written; only OUT and INOUT tensors may be returned")

    @property
    def schema(self) -> str:
        """The schema without the operator's name: ``(Tensor x, Tensor(a1!) y, float a) -> ()``."""
        parts = []
        first, count = self.packed
        for index, param in enumerate(self._params):
            if first <= index < first + count:
                if index == first:
                    taken = {p.name for p in self._params}
                    parts.append("Tensor[] " + next(n for n in ("inputs", "input_list", "inputs_") if n not in taken))
            elif param.shape is None:
                parts.append(f"{_SCALARS.get(param.dtype, 'SymInt')} {param.name}")
            else:
                parts.append(f"Tensor{f'(a{index}!)' if param.direction != 'in' else ''} {param.name}")
        return f"({', '.join(parts)}) -> ()"

    def aliases(self, args) -> Any:
        """The caller's own objects for the return aliases: None, one object, or a tuple."""
        if not self._returns:
            return None
        return args[self._returns[0]] if len(self._returns) == 1 else tuple(args[i] for i in self._returns)

    # --- the fake kernel ------------------------------------------------------------------------------------------------------------------
    def _where(self, index):
        param = self._params[index]
        return f"{self._name}: parameter {index} '{param.name}' ({param.direction})"

    def _fake_shape(self, index, tensor, symbols):
        param = self._params[index]
        if tensor.dim() != len(param.shape):
            raise errors.invalid(f"{self._where(index)}: rank is {tensor.dim()}, expected {len(param.shape)}; pass a tensor of that rank")
        for axis, (size, expected) in enumerate(zip(tensor.shape, param.shape)):
            if expected is None:
                continue
            name = f"dim '{expected}'" if isinstance(expected, str) else "the declared size"
            if isinstance(expected, str):
                if expected not in symbols:
                    symbols[expected] = size
                    continue
                expected = symbols[expected]
            if _symbolic(size) or _symbolic(expected):
                torch._check(size == expected, lambda: f"{self._where(index)}: axis {axis} does not agree with {name}")
            elif size != expected:
                raise errors.invalid(f"{self._where(index)}: size of axis {axis} is {size}, expected {expected} ({name})")

    def _fake_tensor(self, index, tensor, symbols):
        param = self._params[index]
        if not isinstance(tensor, torch.Tensor):
            raise errors.wrong_type(f"{self._where(index)}: a {type(tensor).__name__}, expected a torch.Tensor of {param.dtype}")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
            raise errors.invalid(f"{self._where(index)}: not a dense strided tensor (layout {tensor.layout}); pass a dense one")
        if tensor.dtype != DTYPES.get(param.dtype):
            raise errors.invalid(f"{self._where(index)}: dtype is {tensor.dtype}, expected {param.dtype}; pass x.to({DTYPES.get(param.dtype)})")
        if torch.is_grad_enabled() and tensor.requires_grad:
            raise errors.invalid(f"{self._where(index)}: the tensor requires grad and autograd is on, but the operator has no derivative; call it under torch.no_grad(), detach, or name "
                                 "backward= when registering")
        if tensor.is_conj() or tensor.is_neg():
            raise errors.invalid(f"{self._where(index)}: a {'conjugate' if tensor.is_conj() else 'negative'} view; pass x.resolve_conj().resolve_neg()")
        self._fake_shape(index, tensor, symbols)
        if param.layout != "nz" and _contiguous(tensor) is False:
            raise errors.invalid(f"{self._where(index)}: strides {list(tensor.stride())} are not contiguous for shape {list(tensor.shape)}; pass x.contiguous() of your own making")

    def _fake_scalar(self, index, value):
        param = self._params[index]
        bits = {"i8": (-1 << 7, 1 << 7), "i16": (-1 << 15, 1 << 15), "i32": (-1 << 31, 1 << 31), "u8": (0, 1 << 8), "u16": (0, 1 << 16), "u32": (0, 1 << 32)}.get(param.dtype)
        if bits and type(value) is int and not bits[0] <= value < bits[1]:
            raise errors.invalid(f"{self._where(index)}: {value} does not fit {param.dtype}")

    def fake(self, *args: Any) -> Any:
        """What a call would do to tensors without memory: checks, and the caller's own objects for the return aliases.

        Dtype, rank, static and named dims, contiguity, one device for all, inference-only use. Symbolic sizes and scalars stay symbolic, unbacked ones too. No storage, data pointer,
        device, stream or format is asked for.
        """
        if len(args) != len(self._params):
            raise errors.wrong_type(f"{self._name}: {len(args)} arguments, expected {len(self._params)}: {', '.join(p.name for p in self._params)}")
        symbols, first = {}, None
        for index, (value, param) in enumerate(zip(args, self._params)):
            if param.shape is None:
                self._fake_scalar(index, value)
                continue
            self._fake_tensor(index, value, symbols)
            first = index if first is None else first
            if value.device != args[first].device:
                raise errors.invalid(f"{self._where(index)}: on {value.device}, but parameter {first} '{self._params[first].name}' is on {args[first].device}; one device for all")
        return self.aliases(args)

    def define(self, library: "torch.library.Library", name: str) -> None:
        """Defines schema and fake kernel in the caller's |library|, which keeps them as long as it lives.

        Everything of ours is checked before the first registration. A second definition raises PyTorch's own error. Not while other threads register.
        """
        if not _IDENTIFIER.match(name) or name in _RESERVED:
            raise errors.invalid(f"operator name '{name}': not a name that a PyTorch schema can say; use letters, digits and _")
        registrar = _fake_registrar()
        qualified = f"{library.ns}::{name}"
        tags = tuple(getattr(torch.Tag, tag) for tag in ("pt2_compliant_tag", "needs_exact_strides") if hasattr(torch.Tag, tag))
        library.define(name + self.schema, tags=tags)
        signature = RegistrationSignature(self.signature)
        signature._name = qualified

        def fake(*args):
            signature.fake(*signature.unpack(args))

        registrar(qualified, fake, lib=library)

    def __reduce__(self):
        return RegistrationSignature, (str(self.signature),)

    def __repr__(self):
        return f"<slipstream.torch.RegistrationSignature {self.schema}>"
