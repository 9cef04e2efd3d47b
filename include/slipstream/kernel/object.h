// SPDX-License-Identifier: Apache-2.0
// The one symbol a host-native callable exports: a table of its entries and kernels.
//
// `slip compile` writes the translation unit that defines it; hand-linked objects may define it themselves. The table and all it points to
// are constant.
#ifndef SLIPSTREAM_KERNEL_OBJECT_H_
#define SLIPSTREAM_KERNEL_OBJECT_H_

#include "slipstream/kernel/orch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLIP_OBJECT_MAGIC  0x4a424f5350494c53ull  // "SLSPOBJ" with its length
#define SLIP_OBJECT_SYMBOL "slip_object"

typedef struct slip_object_kernel_t {
  const char *name;
  slip_kernel_fn_t run;
  uint32_t core;           // slip_core_e
  uint32_t scratch_bytes;  // per running block
  uint32_t tensor_count;   // declared arguments; a submit must match
  uint32_t scalar_count;
} slip_object_kernel_t;

// What a kernel declares of one of its tensors; a submit must fit.
typedef struct slip_object_param_t {
  const char *name;
  uint8_t direction;  // 1 in, 2 out, 3 inout
  uint8_t dtype;      // slip_dtype_e
  uint8_t rank;
  uint8_t reserved[5];
  // Above 0: exactly that. -1: anything. -2, -3, ...: the kernel's first, second, ... symbol, numbered as they first appear in its tensors;
  // dimensions with the same symbol must agree within one submit.
  int64_t dims[SLIP_MAX_RANK];
} slip_object_param_t;

typedef struct slip_object_entry_t {
  const char *name;
  slip_orch_fn_t run;
  uint32_t tensor_count;
  uint32_t scalar_count;
} slip_object_entry_t;

typedef struct slip_object_t {
  uint64_t magic;  // SLIP_OBJECT_MAGIC
  uint32_t struct_size;
  uint32_t abi_version;  // SLIP_ORCH_ABI_VERSION
  const slip_object_entry_t *entries;
  const slip_object_kernel_t *kernels;
  uint32_t entry_count;
  uint32_t kernel_count;
  const slip_object_param_t *const *kernel_params;  // for each kernel its |tensor_count| tensors; NULL here or there: not checked
} slip_object_t;

#ifdef __cplusplus
}
#endif

#endif  // SLIPSTREAM_KERNEL_OBJECT_H_
