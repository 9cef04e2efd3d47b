# SPDX-License-Identifier: Apache-2.0
"""Tensors that a plain Callable must refuse as x of axpy(x, y, a) with y of 4 elements, and those it must take."""
import re

import slipstream
import torch


class Marked(torch.Tensor):
    """A subclass that changes nothing."""


class Intercepting(torch.Tensor):
    """A subclass that sees every operation, and does not like to be asked."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


class Wrapper(torch.Tensor):
    """A subclass without storage."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError(f"Wrapper does not know {function}")


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(4)


def shrunk(tensor, size_bytes):
    """|tensor|, whose storage shrinks under it."""
    tensor.untyped_storage().resize_(size_bytes)
    return tensor


def swapped(tensor, other):
    torch.utils.swap_tensors(tensor, other)
    return tensor


def given(tensor, other):
    tensor.data = other
    return tensor


# name -> (maker, what the sentence says)
REFUSED = {
    "requires grad": (lambda: torch.ones(4, requires_grad=True), "'x'.*requires grad"),
    "grown from one": (lambda: torch.ones(4, requires_grad=True) * 2, "'x'.*requires grad"),
    "Parameter": (lambda: torch.nn.Parameter(torch.ones(4)), "'x'.*requires grad"),
    "subclass with grad": (lambda: torch.ones(4).as_subclass(Marked).requires_grad_(), "'x'.*requires grad"),
    "intercepting with grad": (lambda: torch.ones(4).as_subclass(Intercepting).requires_grad_(), "'x'.*requires grad"),
    "swapped with one": (lambda: swapped(torch.ones(4), torch.ones(4, requires_grad=True)), "'x'.*requires grad"),
    "neg view": (lambda: torch._neg_view(torch.ones(4)), "'x'.*neg view"),
    "neg view of a subclass": (lambda: torch._neg_view(torch.ones(4)).as_subclass(Marked), "'x'.*neg view"),
    "neg view that requires grad": (lambda: torch._neg_view(torch.ones(4, requires_grad=True)), "'x'.*(neg view|requires grad)"),
    "conj view": (lambda: torch.ones(4, dtype=torch.complex64).conj(), "'x'"),
    "complex": (lambda: torch.ones(4, dtype=torch.complex64), "'x'"),
    "meta": (lambda: torch.ones(4, device="meta"), "'x'.*meta"),
    "fake": (fake, "'x'.*expects a tensor with storage"),
    "functional": (lambda: torch._to_functional_tensor(torch.ones(4)), "'x'"),
    "wrapper": (lambda: Wrapper(torch.ones(4)), "'x'.*expects a tensor with storage"),
    "zero tensor": (lambda: torch._efficientzerotensor(4), "'x'.*(null address|data is null)"),
    "sparse": (lambda: torch.ones(4).to_sparse(), "'x'"),
    "sparse compressed": (lambda: torch.ones(4, 4).to_sparse_csr(), "'x'"),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(4), 1.0, 0, torch.quint8), "'x'"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "'x'"),
    "oneDNN": (lambda: torch.ones(2, 2).to_mkldnn(), "'x'"),
    "dtype": (lambda: torch.ones(4, dtype=torch.float64), "'x'.*f64"),
    "rank": (lambda: torch.ones(4, 1), "'x'.*rank"),
    "rank above all": (lambda: torch.ones([1] * 20), "'x'.*20"),
    "size": (lambda: torch.ones(5), "'y'.*N = 5"),
    "resized": (lambda: torch.ones(4).resize_(3), "'y'.*N = 3"),
    "strided": (lambda: torch.ones(8)[::2], "'x'.*contiguous"),
    "expanded": (lambda: torch.ones(1).expand(4), "'x'.*contiguous"),
    "storage gone": (lambda: shrunk(torch.ones(4), 0), "'x'.*(null address|data is null)"),
}

# What DLPack does not tell: refused where PyTorch's own functions are asked.
BOUNDS = {
    "storage shrunk": (lambda: shrunk(torch.ones(4), 8), "'x'.*storage of 8 bytes, came bytes .0,16."),
    "storage shrunk under a view": (lambda: shrunk(torch.ones(8)[4:], 24), "'x'.*storage of 24 bytes, came bytes .16,32."),
    "storage shrunk under a subclass": (lambda: shrunk(torch.ones(4), 8).as_subclass(Marked), "'x'.*storage of 8 bytes"),
}

# Four ones each.
TAKEN = {
    "plain": lambda: torch.ones(4),
    "view": lambda: torch.arange(-3.0, 8).clamp(1, 1)[3:7],
    "detached": lambda: (torch.ones(4, requires_grad=True) * 1).detach(),
    "Parameter without grad": lambda: torch.nn.Parameter(torch.ones(4), requires_grad=False),
    "subclass": lambda: torch.ones(4).as_subclass(Marked),
    "intercepting": lambda: torch.ones(4).as_subclass(Intercepting),
    "resolved": lambda: torch._neg_view(-torch.ones(4)).resolve_neg(),
    "resized": lambda: torch.zeros(2).resize_(4).fill_(1),
    "set": lambda: torch.zeros(9).set_(torch.ones(9).untyped_storage(), 3, (4,), (1,)),
    "swapped": lambda: swapped(torch.zeros(7, requires_grad=True), torch.ones(4)),
    "data given": lambda: given(torch.zeros(7), torch.ones(4)),
    "storage shrunk to its end": lambda: shrunk(torch.ones(64), 16)[:4],
    "lazy clone": lambda: torch._lazy_clone(torch.ones(4)),
}


def refuse(call, make, text):
    """|call| takes (x, y, a); nothing may be written."""
    y = torch.zeros(4)
    try:
        call(make(), y, 1.0)
    except slipstream.SlipError as error:
        assert re.search(text, str(error)), error
    else:
        raise AssertionError("not refused")
    assert y.tolist() == [0.0] * 4


def take(call, make):
    y = torch.zeros(4)
    assert call(make(), y, 3.0) is y
    assert y.tolist() == [3.0] * 4


def count_questions():
    """From now on is_neg(), which the usual way of reading asks of each tensor, is counted; returns the count so far, in a list."""
    count, asked = [0], torch.Tensor.is_neg

    def is_neg(self):
        count[0] += 1
        return asked(self)

    torch.Tensor.is_neg = is_neg
    return count
