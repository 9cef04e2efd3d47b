// SPDX-License-Identifier: Apache-2.0
// The peer of torch_op_ratio: the operator of bench/python that does nothing, as a C++ author writes it with PyTorch's stable ABI. It
// checks nothing.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

static void nothing(Tensor, Tensor, Tensor) {}

STABLE_TORCH_LIBRARY_FRAGMENT(slip_bench_peer, library) {
  library.def("nothing(Tensor x, Tensor y, Tensor(a2!) z) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(slip_bench_peer, CPU, library) {
  library.impl("nothing", TORCH_BOX(&nothing));
}
