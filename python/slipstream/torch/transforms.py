# SPDX-License-Identifier: Apache-2.0
"""Operators inside torch.func's transforms and under forward-mode differentiation.

There a tensor is a wrapper around another one, and without a kernel at the transforms' own key PyTorch would run an operator on what is inside: torch.func.grad would answer zero, in silence.
The kernel here refuses what would be wrong and runs the rest. It is reached only while a transform is active, so ordinary calls do not pay for it.
"""
from typing import Any

import torch

from . import errors

KEY = "FuncTorchDynamicLayerFrontMode"
_functorch = torch._C._functorch
_forward_ad = torch.autograd.forward_ad


def _where(name: str, registered, index: int) -> str:
    param = registered._params[index]
    return f"{name}: parameter {index} '{param.name}' ({param.direction})"


def _check(tensor: torch.Tensor, where: str, forward: frozenset) -> None:
    """Refuses one wrapper."""
    if _functorch.is_batchedtensor(tensor):
        raise errors.unsupported(f"{where}: batched by vmap, for which the operator has no rule; call it in a loop outside of vmap, or declare the batch as a dim of the program")
    if _functorch.is_functionaltensor(tensor):
        raise errors.unsupported(f"{where}: inside torch.func.functionalize, which takes no operator that writes its arguments; use torch.compile or torch.export")
    if torch.is_grad_enabled() and tensor.requires_grad:
        raise errors.invalid(f"{where}: a transform of torch.func takes the derivative with respect to the tensor, but the operator has none; call it on x.detach(), or name backward= when "
                             "registering and call the Operator")
    if _functorch.maybe_get_level(tensor) in forward:
        raise errors.unsupported(f"{where}: inside torch.func.jvp or jacfwd, and the operator has no forward-mode derivative; use grad, vjp or jacrev with backward=, or call it outside")


def kernel(op, name: str, registered):
    """The kernel at the transforms' key."""
    from torch._functorch import pyfunctorch

    written = frozenset(i for i, p in enumerate(registered._params) if p.direction in ("out", "inout"))

    def transformed(*args):
        forward = frozenset(i.level() for i in pyfunctorch.retrieve_all_functorch_interpreters() if i.key() == _functorch.TransformType.Jvp)
        bare = list(registered.unpack(args))
        for index, value in enumerate(bare):
            while isinstance(value, torch.Tensor) and _functorch.is_functorch_wrapped_tensor(value):
                _check(value, _where(name, registered, index), forward)
                if index in written:
                    torch.autograd.graph.increment_version(value)
                value = _functorch.get_unwrapped(value)
            bare[index] = value
        with pyfunctorch.temporarily_clear_interpreter_stack():
            op(*registered.pack(tuple(bare)))

    return transformed


def refuse_tangents(name: str, registered, args: Any) -> None:
    """Refuses dual tensors; to be asked only inside a dual_level(), since it takes microseconds."""
    for index, value in enumerate(args):
        if not isinstance(value, torch.Tensor) or _functorch.is_functorch_wrapped_tensor(value):
            continue
        if _forward_ad.unpack_dual(value).tangent is not None:
            raise errors.unsupported(f"{_where(name, registered, index)}: a dual tensor, and the operator has no forward-mode derivative; pass torch.autograd.forward_ad.unpack_dual(x).primal")
