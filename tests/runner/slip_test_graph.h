// SPDX-License-Identifier: Apache-2.0
// What the tests of the engine share: an engine with one workspace, and orchestrations that are closures.
#ifndef SLIP_TEST_GRAPH_H_
#define SLIP_TEST_GRAPH_H_

#include "graph/engine.h"
#include "slip_test.h"

typedef struct graph_test_t {
  slip__engine_t *engine;
  slip__workspace_t *workspace;
} graph_test_t;

static inline slip__workspace_options_t graph_test_options(uint32_t window, uint64_t heap, uint32_t pool) {
  slip__workspace_options_t options = {{0}, {0}, {0}, {0}, 0};
  for (int i = 0; i < SLIP__RING_COUNT; ++i) {
    options.task_window[i] = window;
    options.heap_bytes[i] = heap;
    options.dependency_pool[i] = pool;
  }
  return options;
}

static inline graph_test_t graph_test_open(uint32_t threads, uint32_t window, uint64_t heap, uint32_t pool) {
  graph_test_t test;
  slip__engine_options_t engine = {.thread_count = threads, .serial = threads == 0, .scratch_bytes = 256};
  slip__workspace_options_t workspace = graph_test_options(window, heap, pool);
  SLIP_CHECK_OK(slip__engine_create(&engine, &test.engine));
  SLIP_CHECK_OK(slip__workspace_create(test.engine, &workspace, &test.workspace));
  return test;
}

static inline void graph_test_close(graph_test_t *test) {
  slip__workspace_destroy(test->workspace);
  slip__engine_destroy(test->engine);
}

static inline slip_otensor_t graph_test_tensor(void *data, uint8_t dtype, uint8_t rank, const int64_t *dims) {
  slip_otensor_t tensor = slip_otensor_describe(dtype, rank, dims);
  tensor.view.data = data;
  tensor.storage = data;
  tensor.storage_bytes = (uint64_t)slip_dtype_carrier_bytes(dtype);
  for (int i = 0; i < rank; ++i) tensor.storage_bytes *= (uint64_t)dims[i];
  return tensor;
}

// Runs |orchestrate| with |tensors| as boundary arguments and |user| as its only scalar.
static inline slip_status_t graph_test_run(graph_test_t *test, const slip_object_kernel_t *kernels, uint32_t kernel_count,
                                           slip_orch_fn_t orchestrate, slip_otensor_t *tensors, uint32_t tensor_count, void *user,
                                           uint32_t flags) {
  slip_object_entry_t entry = {"test", orchestrate, tensor_count, 1};
  slip_object_t object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, &entry, kernels, 1, kernel_count, NULL};
  uint64_t scalar = (uint64_t)(uintptr_t)user;
  slip__run_t run = {
      .object = &object, .tensor_count = tensor_count, .tensors = tensors, .scalars = &scalar, .scalar_count = 1, .flags = flags};
  return slip__engine_run(test->engine, test->workspace, &run);
}

// Kernels of several tests. The elements of a vector count up from the scalar.
static inline void graph_test_put(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = &args->tensors[0];
  for (int64_t i = 0; i < t->dims[0]; ++i) ((int64_t *)t->data)[i * t->strides[0]] = (int64_t)args->scalars[0] + i;
}
// One more in the first element, and fault 5 where that was 77.
static inline void graph_test_faulty(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  int64_t *cell = (int64_t *)args->tensors[0].data;
  if (*cell == 77) slip_kernel_fault(args, 5);
  *cell += 1;
}

static inline void *graph_test_user(const slip_oargs_t *args) {
  return (void *)(uintptr_t)args->scalars[0];
}

#endif  // SLIP_TEST_GRAPH_H_
