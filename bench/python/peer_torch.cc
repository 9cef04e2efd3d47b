// SPDX-License-Identifier: Apache-2.0
// The peer of torch_op_ratio: the trivial operator of bench/python as a C++ author writes it with PyTorch's stable ABI.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

// y[0] = a * x[0]: no work to speak of, but nothing that could be left out.
static void poke(Tensor x, Tensor y, double a) {
  static_cast<float *>(y.data_ptr())[0] = static_cast<float>(a) * static_cast<const float *>(x.data_ptr())[0];
}

STABLE_TORCH_LIBRARY_FRAGMENT(peer, library) {
  library.def("poke(Tensor x, Tensor(a1!) y, float a) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(peer, CPU, library) {
  library.impl("poke", TORCH_BOX(&poke));
}
