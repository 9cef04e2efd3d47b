// SPDX-License-Identifier: Apache-2.0
// Resident memory: bounds, ends, budget, tensors.
#include <stdlib.h>

#include "program_mode/program_world_test.h"

SLIP_PROGRAM_TEST(memory_is_copied_both_ways) {
  float x[16], y[16] = {0};
  void *a = NULL, *b = NULL;
  slip_program_fill(x, 16, 3, 2);
  SLIP_CHECK_OK(slip_worker_allocate(world->worker, sizeof(x), &a));
  SLIP_CHECK_OK(slip_worker_allocate(world->worker, sizeof(x), &b));
  SLIP_CHECK_EQ((uintptr_t)a % 64, 0);
  SLIP_CHECK_OK(slip_worker_copy(world->worker, a, x, sizeof(x), SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip_worker_copy(world->worker, b, a, sizeof(x), SLIP_COPY_DEVICE_TO_DEVICE));
  SLIP_CHECK_OK(slip_worker_copy(world->worker, y, b, sizeof(x), SLIP_COPY_DEVICE_TO_HOST));
  slip_program_expect(y, 16, 3, 2);
  SLIP_CHECK_EQ(slip_program_stats(world->worker).memory_bytes, 2 * sizeof(x));
  SLIP_CHECK_EQ(slip_program_stats(world->worker).allocations, 2);
  SLIP_CHECK_OK(slip_worker_free(world->worker, a));
  SLIP_CHECK_EQ(slip_program_stats(world->worker).memory_bytes, sizeof(x));
  SLIP_CHECK_EQ(slip_program_stats(world->worker).memory_peak_bytes, 2 * sizeof(x));
  SLIP_CHECK_OK(slip_worker_free(world->worker, b));
}

SLIP_PROGRAM_TEST(memory_refuses_foreign_and_freed) {
  char host[64] = {0};
  void *a = NULL;
  SLIP_CHECK_OK(slip_worker_allocate(world->worker, 64, &a));
  SLIP_CHECK_ERROR(slip_worker_free(world->worker, host), SLIP_CODE_INVALID_ARGUMENT, "never given out");
  SLIP_CHECK_ERROR(slip_worker_free(world->worker, (char *)a + 8), SLIP_CODE_INVALID_ARGUMENT, "points 8 bytes into");
  SLIP_CHECK_CODE(slip_worker_copy(world->worker, host, host, 8, SLIP_COPY_DEVICE_TO_HOST), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_worker_free(world->worker, a));
  SLIP_CHECK_ERROR(slip_worker_free(world->worker, a), SLIP_CODE_INVALID_ARGUMENT, "freed before");
  SLIP_CHECK_ERROR(slip_worker_copy(world->worker, a, host, 8, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT, "target");
}

SLIP_PROGRAM_TEST(memory_refuses_copies_out_of_bounds) {
  char host[128] = {0};
  void *a = NULL, *b = NULL;
  SLIP_CHECK_OK(slip_worker_allocate(world->worker, 64, &a));
  SLIP_CHECK_OK(slip_worker_allocate(world->worker, 64, &b));
  slip_worker_t *w = world->worker;
  SLIP_CHECK_ERROR(slip_worker_copy(w, a, host, 65, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT, "ends 1 bytes behind");
  SLIP_CHECK_CODE(slip_worker_copy(w, (char *)a + 60, host, 8, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_copy(w, host, (char *)a - 1, 8, SLIP_COPY_DEVICE_TO_HOST), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_copy(w, a, host, UINT64_MAX, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_copy(w, a, b, 65, SLIP_COPY_DEVICE_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_ERROR(slip_worker_copy(w, a, (char *)a + 4, 8, SLIP_COPY_DEVICE_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT, "overlap");
  SLIP_CHECK_ERROR(slip_worker_copy(w, a, host, 8, 9), SLIP_CODE_INVALID_ARGUMENT, "kind is 9");
  SLIP_CHECK_ERROR(slip_worker_copy(w, a, NULL, 8, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT, "source is NULL");
  SLIP_CHECK_ERROR(slip_worker_copy(w, NULL, a, 8, SLIP_COPY_DEVICE_TO_HOST), SLIP_CODE_INVALID_ARGUMENT, "target is NULL");
  SLIP_CHECK_OK(slip_worker_copy(w, a, NULL, 0, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip_worker_copy(w, (char *)a + 32, (char *)a, 32, SLIP_COPY_DEVICE_TO_DEVICE));
}

SLIP_PROGRAM_TEST(memory_of_size_zero) {
  void *a = world;
  int64_t dims[2] = {4, 0};
  slip_tensor_t tensor;
  SLIP_CHECK_OK(slip_worker_allocate(world->worker, 0, &a));
  SLIP_CHECK(a == NULL);
  SLIP_CHECK_OK(slip_worker_tensor_create(world->worker, SLIP_DTYPE_F32, 2, dims, SLIP_WORKER_TENSOR_ZERO, &tensor));
  SLIP_CHECK(tensor.data == NULL);
  SLIP_CHECK_OK(slip_worker_tensor_write(world->worker, &tensor, NULL, 0));
  SLIP_CHECK_OK(slip_worker_tensor_free(world->worker, &tensor));
}

static void slip_memory_budget(slip_program_place_e place) {
  slip_program_world_t world;
  slip_worker_options_t options = SLIP_WORKER_OPTIONS_INIT;
  void *a = NULL, *b = NULL;
  options.memory_budget_bytes = 1000;
  slip_program_world_open(&world, place, &options);
  SLIP_CHECK_OK(slip_worker_allocate(world.worker, 600, &a));
  SLIP_CHECK_ERROR(slip_worker_allocate(world.worker, 401, &b), SLIP_CODE_OUT_OF_MEMORY, "memory_budget_bytes is 1000");
  SLIP_CHECK_CODE(slip_worker_allocate(world.worker, UINT64_MAX, &b), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_OK(slip_worker_allocate(world.worker, 400, &b));
  SLIP_CHECK_OK(slip_worker_free(world.worker, a));
  SLIP_CHECK_OK(slip_worker_allocate(world.worker, 600, &a));
  SLIP_CHECK_EQ(slip_program_stats(world.worker).memory_bytes, 1000);
  slip_program_world_end(&world);  // what callers forgot goes with the worker
}
SLIP_TEST(program_memory_budget_cpu) {
  slip_memory_budget(SLIP_PROGRAM_CPU);
}
SLIP_TEST(program_memory_budget_sim) {
  slip_memory_budget(SLIP_PROGRAM_CUDA);
}

SLIP_PROGRAM_TEST(memory_more_than_there_is) {
  void *a = NULL;
  SLIP_CHECK_CODE(slip_worker_allocate(world->worker, UINT64_MAX, &a), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_CODE(slip_worker_allocate(world->worker, UINT64_C(1) << 60, &a), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_EQ(slip_program_stats(world->worker).memory_bytes, 0);
}

SLIP_PROGRAM_TEST(tensors_are_written_and_read) {
  int64_t dims[2] = {3, 4};
  float x[12], y[12] = {0};
  slip_tensor_t tensor, view, wide;
  slip_worker_t *w = world->worker;
  slip_program_fill(x, 12, 1, 1);
  SLIP_CHECK_OK(slip_worker_tensor_create(w, SLIP_DTYPE_F32, 2, dims, SLIP_WORKER_TENSOR_ZERO, &tensor));
  SLIP_CHECK_EQ(tensor.flags, SLIP_TENSOR_WORKER_OWNED);
  SLIP_CHECK_EQ(tensor.storage_bytes, sizeof(x));
  SLIP_CHECK_OK(slip_worker_tensor_read(w, &tensor, y, sizeof(y)));
  slip_program_expect(y, 12, 0, 0);
  SLIP_CHECK_OK(slip_worker_tensor_write(w, &tensor, x, sizeof(x)));
  SLIP_CHECK_OK(slip_tensor_slice(&tensor, 0, 1, 2, 1, &view));
  SLIP_CHECK_OK(slip_worker_tensor_read(w, &view, y, 8 * sizeof(float)));
  slip_program_expect(y, 8, 5, 1);
  SLIP_CHECK_OK(slip_tensor_slice(&tensor, 1, 0, 2, 1, &view));
  SLIP_CHECK_ERROR(slip_worker_tensor_read(w, &view, y, 6 * sizeof(float)), SLIP_CODE_INVALID_ARGUMENT, "gaps");
  SLIP_CHECK_ERROR(slip_worker_tensor_write(w, &tensor, x, 8), SLIP_CODE_INVALID_ARGUMENT, "has 48 bytes, but size_bytes is 8");
  SLIP_CHECK_ERROR(slip_worker_tensor_write(w, &tensor, NULL, sizeof(x)), SLIP_CODE_INVALID_ARGUMENT, "NULL");
  // A descriptor that somebody stretched.
  wide = tensor;
  wide.dims[0] = 30;
  wide.storage_bytes = 30 * 4 * sizeof(float);
  SLIP_CHECK_ERROR(slip_worker_tensor_read(w, &wide, y, 30 * 4 * sizeof(float)), SLIP_CODE_INVALID_ARGUMENT, "behind its allocation");
  SLIP_CHECK_OK(slip_worker_tensor_free(w, &tensor));
  SLIP_CHECK_ERROR(slip_worker_tensor_free(w, &tensor), SLIP_CODE_INVALID_ARGUMENT, "freed before");
  SLIP_CHECK_ERROR(slip_worker_tensor_read(w, &tensor, y, sizeof(y)), SLIP_CODE_INVALID_ARGUMENT, "no memory of this worker");
}

SLIP_PROGRAM_TEST(tensors_of_others_are_refused) {
  float x[4] = {0};
  slip_tensor_t host = slip_program_host_f32(x, 4), tensor;
  int64_t negative = -1;
  slip_worker_t *w = world->worker;
  SLIP_CHECK_OK(slip_worker_open(w));
  SLIP_CHECK_ERROR(slip_worker_tensor_free(w, &host), SLIP_CODE_INVALID_ARGUMENT, "which no worker owns");
  SLIP_CHECK_CODE(slip_worker_tensor_free(w, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_tensor_write(w, &host, x, sizeof(x)), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_tensor_create(w, SLIP_DTYPE_F32, 1, &negative, 0, &tensor), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_tensor_create(w, SLIP_DTYPE_F32, 0, NULL, 8, &tensor), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_tensor_create(w, 99, 0, NULL, 0, &tensor), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(tensor.struct_size, 0);
}

// Kernel mode's own rule: what a worker owns is not borrowed.
SLIP_PROGRAM_TEST(tensors_are_refused_by_frames) {
  slip_tensor_t tensor;
  slip_frame_t frame;
  slip_signature_t *signature = NULL;
  int64_t dims[1] = {4};
  const char text[] = "(inout x: f32[4])";
  SLIP_CHECK_OK(slip_worker_tensor_create(world->worker, SLIP_DTYPE_F32, 1, dims, 0, &tensor));
  SLIP_CHECK_OK(slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature));
  slip_arg_t arg = slip_arg_tensor(&tensor, NULL);
  SLIP_CHECK_ERROR(slip_frame_initialize(&frame, signature, "f", slip_worker_device(world->worker), &arg, 1, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "owned by a Slipstream worker");
  slip_signature_release(signature);
}

// Many blocks, in an order that is not that of their addresses.
SLIP_PROGRAM_TEST(memory_many_blocks) {
  enum { BLOCKS = 100 };
  void *blocks[BLOCKS];
  uint64_t seed = slip_test_seed();
  for (int i = 0; i < BLOCKS; ++i) SLIP_CHECK_OK(slip_worker_allocate(world->worker, 1 + slip_test_random(&seed) % 500, &blocks[i]));
  for (int i = BLOCKS; i > 1; --i) {
    int k = (int)(slip_test_random(&seed) % (uint64_t)i);
    void *swap = blocks[k];
    blocks[k] = blocks[i - 1];
    blocks[i - 1] = swap;
  }
  for (int i = 0; i < BLOCKS; ++i) {
    SLIP_CHECK_OK(slip_worker_free(world->worker, blocks[i]));
    SLIP_CHECK_CODE(slip_worker_free(world->worker, blocks[i]), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_EQ(slip_program_stats(world->worker).allocations, BLOCKS - 1 - i);
  }
  SLIP_CHECK_EQ(slip_program_stats(world->worker).memory_bytes, 0);
}
