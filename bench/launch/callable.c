// SPDX-License-Identifier: Apache-2.0
// The trivial callable: z = x + y over vectors of a few elements, one task. Hand-written as `slip compile` would write it.
#include "slipstream/kernel/object.h"
#include "slipstream/kernel/orch.h"

static void add_f32(const slip_kargs_t *args, slip_block_t block) {
  const float *x = args->tensors[0].data, *y = args->tensors[1].data;
  float *z = args->tensors[2].data;
  (void)block;
  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) z[i] = x[i] + y[i];
}

static void add(slip_orch_t *o, const slip_oargs_t *args) {
  slip_oarg_t tensors[3] = {
      {&args->tensors[0], SLIP_ACCESS_IN, 0}, {&args->tensors[1], SLIP_ACCESS_IN, 0}, {&args->tensors[2], SLIP_ACCESS_OUT_EXISTING, 0}};
  slip_submit_t submit = {.struct_size = sizeof(submit), .kernel = 0, .tensors = tensors, .tensor_count = 3, .block_count = 1};
  o->api->submit(o, &submit);
}

static const slip_object_entry_t entries[] = {{"add", add, 3, 0}};
static const slip_object_kernel_t kernels[] = {{"add_f32", add_f32, SLIP_CORE_ANY, 0, 3, 0}};

__attribute__((visibility("default"))) extern const slip_object_t slip_object;
const slip_object_t slip_object = {.magic = SLIP_OBJECT_MAGIC,
                                   .struct_size = sizeof(slip_object_t),
                                   .abi_version = SLIP_ORCH_ABI_VERSION,
                                   .entries = entries,
                                   .kernels = kernels,
                                   .entry_count = 1,
                                   .kernel_count = 1};
