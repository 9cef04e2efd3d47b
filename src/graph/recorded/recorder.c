// SPDX-License-Identifier: Apache-2.0
#include "graph/recorded/recorder.h"

#include <string.h>

#include "base/allocator.h"
#include "graph/orch.h"
#include "graph/recorded/infer.h"
#include "graph/state.h"

// A word and what it stands for: a task's handle and its node, a storage's address and its intermediate. Open addressing; key 0 is free.
typedef struct slip__record_pair_t {
  uint64_t key;
  uint32_t value;
} slip__record_pair_t;
typedef struct slip__record_table_t {
  slip__record_pair_t *pairs;
  uint32_t count, capacity;  // a power of two, or 0
} slip__record_table_t;

typedef struct slip__record_block_t {
  uint64_t offset, bytes;
  uint32_t depth;  // of its scope; SLIP__NONE: the scope is over
} slip__record_block_t;

struct slip__recorder_t {
  slip_allocator_t allocator;
  const slip__run_t *run;
  slip__builder_t *builder;
  slip__infer_t *infer;
  const char *refused;  // NULL while recording
  slip__record_table_t tasks, storages;
  slip__record_block_t *blocks;  // by number; those of scopes that are over are taken again
  uint32_t block_count, block_capacity;
  uint64_t heap_used, heap_limit;
};

#define SLIP__STORAGE_HEAP 0u  // for inference; boundary tensor i is storage i + 1

static void slip__recorder_refuse(slip__recorder_t *recorder, const char *why) {
  if (!recorder->refused) recorder->refused = why;
}

// --- Tables -------------------------------------------------------------------------------------------------------------------------

static slip__record_pair_t *slip__record_find(const slip__record_table_t *table, uint64_t key) {
  if (!table->capacity) return NULL;
  uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
  while (table->pairs[at & (table->capacity - 1)].key && table->pairs[at & (table->capacity - 1)].key != key) ++at;
  return &table->pairs[at & (table->capacity - 1)];
}

static bool slip__record_put(slip__recorder_t *recorder, slip__record_table_t *table, uint64_t key, uint32_t value) {
  if (2 * (table->count + 1) > table->capacity) {
    slip__record_table_t larger = {.capacity = table->capacity ? 2 * table->capacity : 256};
    void *memory;
    slip_status_t status = slip__alloc_array(recorder->allocator, larger.capacity, sizeof(slip__record_pair_t), &memory);
    slip_status_free(status);
    if (!memory) return false;
    larger.pairs = memory;
    for (uint32_t i = 0; i < table->capacity; ++i) {
      if (table->pairs[i].key) *slip__record_find(&larger, table->pairs[i].key) = table->pairs[i];
    }
    larger.count = table->count;
    slip__free(recorder->allocator, table->pairs, table->capacity * sizeof(slip__record_pair_t));
    *table = larger;
  }
  slip__record_pair_t *pair = slip__record_find(table, key);
  if (!pair->key) ++table->count;
  *pair = (slip__record_pair_t){.key = key, .value = value};
  return true;
}

// --- Heap ---------------------------------------------------------------------------------------------------------------------------

// An intermediate at |storage| of the run is now the newest there.
static void slip__recorder_allocated(slip__recorder_t *recorder, const slip_otensor_t *tensor) {
  uint64_t bytes = (tensor->storage_bytes + 63) & ~UINT64_C(63);
  uint32_t block = SLIP__NONE;
  bool fresh = recorder->heap_used + bytes <= SLIP__RECORD_HEAP_FRESH;
  for (uint32_t i = 0; i < recorder->block_count && !fresh; ++i) {  // the place of one that is over, about as large
    const slip__record_block_t *b = &recorder->blocks[i];
    if (b->depth != SLIP__NONE || b->bytes < bytes || b->bytes > 2 * bytes) continue;
    block = i;
    break;
  }
  if (block == SLIP__NONE) {
    if (bytes > recorder->heap_limit - recorder->heap_used) return slip__recorder_refuse(recorder, "its intermediates are too large");
    if (recorder->block_count == recorder->block_capacity) {
      uint32_t capacity = recorder->block_capacity ? 2 * recorder->block_capacity : 64;
      void *blocks = recorder->blocks;
      slip_status_t status = slip__realloc(recorder->allocator, recorder->block_capacity * sizeof(slip__record_block_t),
                                           capacity * sizeof(slip__record_block_t), &blocks);
      bool grown = slip_status_is_ok(status);
      slip_status_free(status);
      if (!grown) return slip__recorder_refuse(recorder, "memory is short");
      recorder->blocks = blocks;
      recorder->block_capacity = capacity;
    }
    block = recorder->block_count++;
    recorder->blocks[block] = (slip__record_block_t){.offset = recorder->heap_used, .bytes = bytes};
    recorder->heap_used += bytes;
  }
  recorder->blocks[block].depth = tensor->depth;
  if (!slip__record_put(recorder, &recorder->storages, (uint64_t)(uintptr_t)tensor->storage, block))
    slip__recorder_refuse(recorder, "memory is short");
}

// --- Nodes --------------------------------------------------------------------------------------------------------------------------

typedef struct slip__record_place_t {
  uint32_t base;     // as in a definition
  uint32_t storage;  // for inference
  uint64_t offset;   // of |address|
} slip__record_place_t;

static bool slip__recorder_place(slip__recorder_t *recorder, const slip_otensor_t *tensor, const void *address, slip__record_place_t *out) {
  const slip__run_t *run = recorder->run;
  out->offset = (uint64_t)((uintptr_t)address - (uintptr_t)tensor->storage);
  if (tensor->generation == 0) {
    for (uint32_t i = 0; i < run->tensor_count; ++i) {
      if (run->tensors[i].storage != tensor->storage) continue;
      out->base = i;
      out->storage = i + 1;
      return true;
    }
  } else {
    const slip__record_pair_t *pair = slip__record_find(&recorder->storages, (uint64_t)(uintptr_t)tensor->storage);
    if (pair && pair->key) {
      out->base = SLIP__BASE_HEAP;
      out->storage = SLIP__STORAGE_HEAP;
      out->offset += recorder->blocks[pair->value].offset;
      return true;
    }
  }
  slip__recorder_refuse(recorder, "a tensor is neither a parameter's nor an intermediate");
  return false;
}

static bool slip__recorder_infer(slip__recorder_t *recorder, uint32_t node, const slip_ktensor_t *view, const slip__record_place_t *place,
                                 bool writes, bool manual) {
  slip_ktensor_t moved = *view;
  moved.data = (void *)(uintptr_t)place->offset;
  return slip__infer_access(recorder->infer, recorder->builder, node, place->storage, &moved, writes, manual);
}

static bool slip__recorder_depend(slip__recorder_t *recorder, slip_task_t task) {
  if (task == 0) return true;
  const slip__record_pair_t *pair = slip__record_find(&recorder->tasks, task);
  return pair && pair->key && slip__builder_depend(recorder->builder, pair->value);
}

// Fills in what the definition keeps of the arguments.
static bool slip__recorder_arguments(slip__recorder_t *recorder, const slip_submit_t *submit, slip__definition_tensor_t *tensors,
                                     slip__definition_scalar_t *scalars, slip__record_place_t *places) {
  for (uint32_t i = 0; i < submit->tensor_count; ++i) {
    const slip_otensor_t *tensor = submit->tensors[i].tensor;
    if (submit->tensors[i].access == SLIP_ACCESS_OUT) slip__recorder_allocated(recorder, tensor);
    if (recorder->refused || !slip__recorder_place(recorder, tensor, tensor->view.data, &places[i])) return false;
    tensors[i] = (slip__definition_tensor_t){
        .offset = places[i].offset, .base = places[i].base, .dtype = tensor->view.dtype, .rank = tensor->view.rank};
    for (uint32_t d = 0; d < SLIP_MAX_RANK; ++d) {
      tensors[i].dims[d] = d < tensor->view.rank ? tensor->view.dims[d] : 1;
      tensors[i].strides[d] = d < tensor->view.rank ? tensor->view.strides[d] : 0;
    }
  }
  for (uint32_t i = 0; i < submit->scalar_count; ++i) {
    scalars[i] = (slip__definition_scalar_t){.add = submit->scalars[i], .source = SLIP__NONE};
  }
  return true;
}

static bool slip__recorder_dependencies(slip__recorder_t *recorder, const slip_submit_t *submit, uint32_t node, bool manual,
                                        const slip__record_place_t *places) {
  for (uint32_t i = 0; i < submit->dep_count; ++i) {
    if (!slip__recorder_depend(recorder, submit->deps[i])) return false;
  }
  for (uint32_t i = 0; i < submit->tensor_count; ++i) {
    const slip_oarg_t *argument = &submit->tensors[i];
    if (argument->access == SLIP_ACCESS_NO_DEP) {
      if (!slip__recorder_depend(recorder, argument->tensor->creator)) return false;
    } else if (!slip__recorder_infer(recorder, node, &argument->tensor->view, &places[i], argument->access != SLIP_ACCESS_IN, manual)) {
      return false;
    }
  }
  return true;
}

static void slip__recorder_submit(slip__recorder_t *recorder, const slip_submit_t *submit, slip_task_t task, bool manual) {
  slip__definition_tensor_t tensors[SLIP_KERNEL_MAX_TENSORS];
  slip__definition_scalar_t scalars[SLIP_KERNEL_MAX_SCALARS];
  slip__record_place_t places[SLIP_KERNEL_MAX_TENSORS], read = {0};
  slip__definition_predicate_t predicate = {0};
  if (!slip__recorder_arguments(recorder, submit, tensors, scalars, places)) return;
  if (submit->predicate) {
    const slip_otensor_t *tensor = submit->predicate->tensor;
    slip__record_place_t element;
    if (!slip__recorder_place(recorder, tensor, slip__element_address(&tensor->view, submit->predicate->index), &element) ||
        !slip__recorder_place(recorder, tensor, tensor->view.data, &read)) {
      return;
    }
    predicate = (slip__definition_predicate_t){.offset = element.offset,
                                               .literal = submit->predicate->literal,
                                               .base = element.base,
                                               .op = (uint8_t)submit->predicate->op,
                                               .dtype = tensor->view.dtype};
  }
  slip__builder_node_t node = {.kernel = submit->kernel,
                               .block_count = submit->block_count,
                               .flags = submit->flags,
                               .tensors = tensors,
                               .scalars = scalars,
                               .predicate = submit->predicate ? &predicate : NULL,
                               .tensor_count = submit->tensor_count,
                               .scalar_count = submit->scalar_count};
  uint32_t index = slip__builder_add(recorder->builder, &node);
  if (index == SLIP__NONE || !slip__record_put(recorder, &recorder->tasks, task, index) ||
      !slip__recorder_dependencies(recorder, submit, index, manual, places) ||
      (submit->predicate && !slip__recorder_infer(recorder, index, &submit->predicate->tensor->view, &read, false, manual))) {
    slip__recorder_refuse(recorder, "it has too many tasks or dependencies");
  }
}

// --- The table ----------------------------------------------------------------------------------------------------------------------

// The recorder of a call, while it records.
static slip__recorder_t *slip__recorder_of(slip_orch_t *o) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  slip__recorder_t *recorder = workspace->recorder;
  return recorder->refused || slip__workspace_failed(workspace) ? NULL : recorder;
}

static slip_task_t slip__recorder_api_submit(slip_orch_t *o, const slip_submit_t *submit) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  slip_task_t task = slip__orch_api.submit(o, submit);
  slip__recorder_t *recorder = slip__recorder_of(o);
  if (recorder && task) slip__recorder_submit(recorder, submit, task, workspace->scopes[workspace->depth].mode == SLIP_SCOPE_MANUAL);
  return task;
}

static void slip__recorder_api_scope_begin(slip_orch_t *o, uint32_t mode) {
  slip__orch_api.scope_begin(o, mode);
}

static void slip__recorder_api_scope_end(slip_orch_t *o) {
  uint32_t depth = ((slip__workspace_t *)o)->depth;
  slip__orch_api.scope_end(o);
  slip__recorder_t *recorder = slip__recorder_of(o);
  for (uint32_t i = 0; recorder && i < recorder->block_count; ++i) {
    if (recorder->blocks[i].depth == depth) recorder->blocks[i].depth = SLIP__NONE;
  }
}

static void slip__recorder_api_create(slip_orch_t *o, slip_otensor_t *tensor) {
  slip__orch_api.create(o, tensor);
  slip__recorder_t *recorder = slip__recorder_of(o);
  if (recorder) slip__recorder_allocated(recorder, tensor);
}

static slip_task_t slip__recorder_api_join(slip_orch_t *o, const slip_task_t *deps, uint32_t dep_count) {
  slip_task_t task = slip__orch_api.join(o, deps, dep_count);
  slip__recorder_t *recorder = slip__recorder_of(o);
  if (!recorder || !task) return task;
  slip__builder_node_t node = {.kernel = SLIP__NONE};
  uint32_t index = slip__builder_add(recorder->builder, &node);
  bool good = index != SLIP__NONE && slip__record_put(recorder, &recorder->tasks, task, index);
  for (uint32_t i = 0; i < dep_count && good; ++i) good = slip__recorder_depend(recorder, deps[i]);
  if (!good) slip__recorder_refuse(recorder, "it has too many tasks or dependencies");
  return task;
}

static uint32_t slip__recorder_api_available_cores(slip_orch_t *o, uint32_t core) {
  return slip__orch_api.available_cores(o, core);
}

static uint64_t slip__recorder_api_read_element(slip_orch_t *o, const slip_otensor_t *tensor, int64_t index) {
  slip__recorder_refuse(((slip__workspace_t *)o)->recorder, "it looks at tensor data");
  return slip__orch_api.read_element(o, tensor, index);
}

static void slip__recorder_api_write_element(slip_orch_t *o, const slip_otensor_t *tensor, int64_t index, uint64_t bits) {
  slip__recorder_refuse(((slip__workspace_t *)o)->recorder, "it writes tensor data");
  slip__orch_api.write_element(o, tensor, index, bits);
}

static void slip__recorder_api_fail(slip_orch_t *o, int32_t code, const char *text) {
  slip__orch_api.fail(o, code, text);
}

static int32_t slip__recorder_api_failed(slip_orch_t *o) {
  return slip__orch_api.failed(o);
}

const slip_orch_api_t slip__recorder_api = {
    .struct_size = sizeof(slip_orch_api_t),
    .abi_version = SLIP_ORCH_ABI_VERSION,
    .submit = slip__recorder_api_submit,
    .scope_begin = slip__recorder_api_scope_begin,
    .scope_end = slip__recorder_api_scope_end,
    .create = slip__recorder_api_create,
    .join = slip__recorder_api_join,
    .available_cores = slip__recorder_api_available_cores,
    .read_element = slip__recorder_api_read_element,
    .write_element = slip__recorder_api_write_element,
    .fail = slip__recorder_api_fail,
    .failed = slip__recorder_api_failed,
};

// --- Life ---------------------------------------------------------------------------------------------------------------------------

static void slip__recorder_destroy(slip__recorder_t *recorder) {
  slip_allocator_t allocator = recorder->allocator;
  slip__builder_destroy(recorder->builder);
  slip__infer_destroy(recorder->infer);
  slip__free(allocator, recorder->tasks.pairs, recorder->tasks.capacity * sizeof(slip__record_pair_t));
  slip__free(allocator, recorder->storages.pairs, recorder->storages.capacity * sizeof(slip__record_pair_t));
  slip__free(allocator, recorder->blocks, recorder->block_capacity * sizeof(slip__record_block_t));
  slip__free(allocator, recorder, sizeof(*recorder));
}

slip_status_t slip__recorder_create(slip__workspace_t *workspace, const slip__run_t *run, const slip__builder_limits_t *limits,
                                    slip__recorder_t **out) {
  slip_allocator_t allocator = workspace->engine->allocator;
  void *memory;
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, sizeof(slip__recorder_t), &memory));
  slip__recorder_t *recorder = memory;
  recorder->allocator = allocator;
  recorder->run = run;
  recorder->heap_limit = limits->max_bytes;
  slip_status_t status = slip__builder_create(allocator, limits, run->tensor_count, run->scalar_count, &recorder->builder);
  if (slip_status_is_ok(status)) status = slip__infer_create(allocator, 2 * limits->max_nodes, &recorder->infer);
  if (!slip_status_is_ok(status)) {
    slip__recorder_destroy(recorder);
    return status;
  }
  *out = recorder;
  return status;
}

slip__definition_t *slip__recorder_finish(slip__recorder_t *recorder, uint32_t lane_count, const char **out_reason) {
  slip__definition_t *definition = NULL;
  *out_reason = recorder->refused;
  if (!recorder->refused) {
    slip__builder_set_heap(recorder->builder, recorder->heap_used);
    slip_status_t status = slip__builder_finish(recorder->builder, lane_count, &definition);
    recorder->builder = NULL;
    if (!slip_status_is_ok(status)) *out_reason = "memory is short";
    slip_status_free(status);
  }
  slip__recorder_destroy(recorder);
  return definition;
}
