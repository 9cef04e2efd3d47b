// SPDX-License-Identifier: Apache-2.0
// Callable images for tests: samples without real code, and the round trip that every valid image must survive.
#ifndef SLIP_TEST_IMAGE_H_
#define SLIP_TEST_IMAGE_H_

#include <stdlib.h>
#include <string.h>

#include "slipstream/image.h"
#include "slipstream/kernel/tile.h"
#include "slipstream/tensor.h"

// The samples: 0 a kernel on cpu, 1 a program of two entries on sim, 2 device kernels on cuda, 3 the smallest there is.
#define SLIP_TEST_IMAGE_SAMPLES 4

static inline slip_signature_t *slip_test_image_signature(const char *text) {
  slip_signature_t *signature = NULL;
  slip_status_t status = slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature);
  if (!slip_status_is_ok(status)) abort();
  return signature;
}

// Bytes that begin as a shared object does.
static inline void slip_test_image_fill_elf(uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes[i] = (uint8_t)(i * 7 + 1);
  memcpy(bytes, "\177ELF\2\1\1", 8);
}

// Released with slip_test_image_free().
static inline slip_status_t slip_test_image_sample(unsigned sample, slip_allocator_t allocator, slip_bytes_t *out) {
  static const uint8_t device_code[3][70] = {"first", "second", "third"};
  uint8_t elf[200];
  slip_test_image_fill_elf(elf, sizeof(elf));
  slip_image_entry_t entries[2] = {{"main_entry", NULL}, {"other", NULL}};
  slip_image_kernel_t kernels[3] = {
      {.name = "matmul", .function_id = 0, .core = SLIP_CORE_MATRIX, .tensor_count = 3, .scalar_count = 1, .scratch_bytes = 4096},
      {.name = "norm", .function_id = 1, .core = SLIP_CORE_VECTOR, .tensor_count = 32, .scalar_count = 16},
      {.name = "copy", .function_id = 2, .core = SLIP_CORE_ANY, .tensor_count = 2},
  };
  slip_image_desc_t desc = {.platform = SLIP_PLATFORM_CPU,
                            .contract = SLIP_CONTRACT_KERNEL,
                            .runtime_kind = SLIP_RUNTIME_HOST_NATIVE,
                            .entry_count = 1,
                            .target = "x86-64-v3",
                            .build_id = "slipstream 0.1.0 (test)",
                            .entries = entries,
                            .kernels = kernels,
                            .kernel_count = 3,
                            .orchestration = {elf, sizeof(elf)}};
  entries[0].signature = slip_test_image_signature(
      "(in x: bf16[M,2048], w: bf16[2048], out y: bf16[M,2048], inout s: f32[?] nz, eps: f32, n: i64) -> (y, s, y)");
  entries[1].signature = slip_test_image_signature("(in a: f32[N], b: f32[N,1,2,3,4], out c: f32[]) -> ()");
  if (sample == 1) {
    desc.platform = SLIP_PLATFORM_SIM;
    desc.contract = SLIP_CONTRACT_PROGRAM;
    desc.entry_count = 2;
  } else if (sample == 2) {
    desc.platform = SLIP_PLATFORM_CUDA;
    desc.runtime_kind = SLIP_RUNTIME_DEVICE_KERNELS;
    desc.target = "sm_90a";
    for (size_t i = 0; i < 3; ++i) kernels[i].binary = (slip_const_bytes_t){device_code[i], 62 + i};
  } else if (sample == 3) {
    desc.platform = SLIP_PLATFORM_NULL;
    desc.kernel_count = 0;
    desc.target = "a";
    desc.build_id = "b";
    desc.orchestration.size = 64;
    slip_signature_release(entries[0].signature);
    entries[0].signature = slip_test_image_signature("() -> ()");
  }
  slip_status_t status = slip_image_pack(&desc, allocator, out);
  slip_signature_release(entries[0].signature);
  slip_signature_release(entries[1].signature);
  return status;
}

static inline void slip_test_image_free(slip_allocator_t allocator, slip_bytes_t image) {
  if (image.data) (void)allocator.control(allocator.self, image.data, image.size, 0, SLIP_IMAGE_ALIGNMENT);
}

// Reads everything out of |view| and packs it again. The result must equal the view's bytes.
static inline slip_status_t slip_test_image_repack(const slip_image_view_t *view, slip_allocator_t allocator, slip_bytes_t *out) {
  static slip_image_kernel_t kernels[SLIP_IMAGE_MAX_KERNELS];
  slip_image_entry_t entries[SLIP_IMAGE_MAX_ENTRIES] = {{NULL, NULL}};
  slip_image_desc_t desc = {.platform = view->platform,
                            .contract = view->contract,
                            .runtime_kind = view->runtime_kind,
                            .entry_count = view->entry_count,
                            .target = view->target,
                            .build_id = view->build_id,
                            .entries = entries,
                            .kernels = kernels,
                            .kernel_count = view->kernel_count,
                            .orchestration = view->orchestration};
  slip_status_t status = slip_ok_status();
  *out = (slip_bytes_t){NULL, 0};
  for (uint32_t i = 0; i < view->entry_count && slip_status_is_ok(status); ++i) {
    entries[i].name = slip_image_entry_name(view, i);
    status = slip_image_entry_signature(view, i, allocator, &entries[i].signature);
  }
  for (uint32_t i = 0; i < view->kernel_count; ++i) (void)slip_image_kernel(view, i, &kernels[i]);
  if (slip_status_is_ok(status)) status = slip_image_pack(&desc, allocator, out);
  for (uint32_t i = 0; i < view->entry_count; ++i) slip_signature_release(entries[i].signature);
  return status;
}

#endif  // SLIP_TEST_IMAGE_H_
