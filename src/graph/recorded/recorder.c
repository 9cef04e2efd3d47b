// SPDX-License-Identifier: Apache-2.0
#include "graph/recorded/recorder.h"

#include <string.h>

#include "base/allocator.h"
#include "graph/orch.h"
#include "graph/recorded/begin.h"
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

#define SLIP__DERIVED_COUNT (2 * SLIP_KERNEL_MAX_SCALARS)

// A scalar of a task that is being put together.
typedef struct slip__record_derived_t {
  const uint64_t *place;  // NULL: free
  uint64_t mul, add;
  uint32_t index;
} slip__record_derived_t;

struct slip__recorder_t {
  slip_allocator_t allocator;
  const slip__run_t *run;      // NULL if only a part of one is recorded,
  slip__boundary_t *boundary;  // of which this is the boundary
  slip__record_derived_t derived[SLIP__DERIVED_COUNT];
  slip__builder_t *builder;
  slip__infer_t *infer;
  const char *refused;  // NULL while recording
  slip__record_table_t tasks, storages;
  slip__record_block_t *blocks;  // by number; those of scopes that are over are taken again
  uint32_t block_count, block_capacity;
  uint64_t heap_used, heap_limit;
};

#define SLIP__STORAGE_HEAP 0u  // for inference; boundary tensor i is storage i + 1

void slip__recorder_refuse(slip__recorder_t *recorder, const char *why) {
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
  uint64_t offset;   // of |address|, from the base
  uint64_t at;       // the same within the storage
} slip__record_place_t;

// Of a tensor in a part of a run: an intermediate made in it, or inside one of the boundary.
static bool slip__recorder_place_part(slip__recorder_t *recorder, const slip_otensor_t *tensor, const void *address,
                                      slip__record_place_t *out) {
  const slip__record_pair_t *pair = slip__record_find(&recorder->storages, (uint64_t)(uintptr_t)tensor->storage);
  if (tensor->generation && pair && pair->key) {
    out->base = SLIP__BASE_HEAP;
    out->storage = SLIP__STORAGE_HEAP;
    out->at = out->offset += recorder->blocks[pair->value].offset;
    return true;
  }
  slip__bound_t bytes;
  bool known = slip__bound_of(tensor, &bytes);
  for (uint32_t i = 0; known && i < recorder->boundary->tensor_count; ++i) {
    const slip__bound_t *bound = &recorder->boundary->bounds[i];
    if (bytes.low < bound->low || bytes.end > bound->end) continue;
    out->base = i;
    out->storage = bound->root + 1;
    out->offset = (uint64_t)((uintptr_t)address - bound->low);
    out->at = (uint64_t)((uintptr_t)address - bound->base);
    return true;
  }
  slip__recorder_refuse(recorder, "it uses a tensor that is neither the graph's nor made in it");
  return false;
}

static bool slip__recorder_place(slip__recorder_t *recorder, const slip_otensor_t *tensor, const void *address, slip__record_place_t *out) {
  const slip__run_t *run = recorder->run;
  out->at = out->offset = (uint64_t)((uintptr_t)address - (uintptr_t)tensor->storage);
  if (recorder->boundary) return slip__recorder_place_part(recorder, tensor, address, out);
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
      out->at = out->offset += recorder->blocks[pair->value].offset;
      return true;
    }
  }
  slip__recorder_refuse(recorder, "a tensor is neither a parameter's nor an intermediate");
  return false;
}

static bool slip__recorder_infer(slip__recorder_t *recorder, uint32_t node, const slip_ktensor_t *view, const slip__record_place_t *place,
                                 bool writes, bool manual) {
  slip_ktensor_t moved = *view;
  moved.data = (void *)(uintptr_t)place->at;
  return slip__infer_access(recorder->infer, recorder->builder, node, place->storage, &moved, writes, manual);
}

static bool slip__recorder_depend(slip__recorder_t *recorder, slip_task_t task) {
  if (task == 0) return true;
  const slip__record_pair_t *pair = slip__record_find(&recorder->tasks, task);
  if (pair && pair->key) return slip__builder_depend(recorder->builder, pair->value);
  slip__recorder_refuse(recorder,
                        "a task in it depends by name on one from before it (slip_task_after(), slip_task_join()), whose place no "
                        "replay knows; submit both in it, or let their tensors say the order");
  return false;
}

void slip__recorder_derive(slip__recorder_t *recorder, const uint64_t *place, uint32_t index, uint64_t mul, uint64_t add) {
  slip__record_derived_t *to = NULL;
  for (uint32_t i = 0; i < SLIP__DERIVED_COUNT; ++i) {
    slip__record_derived_t *derived = &recorder->derived[i];
    if (derived->place == place || (!derived->place && !to)) to = derived;
    if (derived->place == place) break;
  }
  if (!to) return slip__recorder_refuse(recorder, "too many tasks with derived scalars are put together at once");
  *to = (slip__record_derived_t){.place = place, .mul = mul, .add = add, .index = index};
}

// Scalar |index| of a task in a part of a run: derived, or a constant that does not look like a boundary scalar.
static bool slip__recorder_scalar(slip__recorder_t *recorder, const slip_submit_t *submit, uint32_t index, slip__definition_scalar_t *out) {
  const slip__boundary_t *boundary = recorder->boundary;
  uint64_t value = submit->scalars[index];
  if (index < 32 && (submit->derived >> index & 1)) {
    for (uint32_t i = 0; i < SLIP__DERIVED_COUNT; ++i) {
      slip__record_derived_t *derived = &recorder->derived[i];
      if (derived->place != &submit->scalars[index]) continue;
      derived->place = NULL;
      if (boundary->scalars[derived->index] * derived->mul + derived->add != value) break;
      *out = (slip__definition_scalar_t){.mul = derived->mul, .add = derived->add, .source = derived->index};
      return true;
    }
    slip__recorder_refuse(recorder, "a derived scalar was changed or copied before its task was submitted");
    return false;
  }
  for (uint32_t i = 0; i < boundary->scalar_count; ++i) {
    if (boundary->scalars[i] != value || value <= 1) continue;
    slip__recorder_refuse(recorder, "a task's plain scalar has the value of a boundary scalar; pass it by slip_task_scalar_from()");
    return false;
  }
  return true;
}

// Which tensors of the boundary a task reads and writes.
static void slip__recorder_touch(slip__recorder_t *recorder, const slip_submit_t *submit, const slip__record_place_t *places) {
  for (uint32_t i = 0; i < submit->tensor_count; ++i) {
    if (places[i].base == SLIP__BASE_HEAP) continue;
    recorder->boundary->read |= 1u << places[i].base;
    // Without a dependency the kernel may do anything.
    if (submit->tensors[i].access != SLIP_ACCESS_IN) recorder->boundary->written |= 1u << places[i].base;
  }
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
    if (recorder->boundary && !slip__recorder_scalar(recorder, submit, i, &scalars[i])) return false;
  }
  if (recorder->boundary) slip__recorder_touch(recorder, submit, places);
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
      // The creator of a tensor of a part's boundary is a task before it, which the whole part follows.
      if (recorder->boundary && places[i].base != SLIP__BASE_HEAP) continue;
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
    if (recorder->boundary && read.base != SLIP__BASE_HEAP) recorder->boundary->read |= 1u << read.base;
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
    .graph_begin = slip__begin_graph,
    .graph_end = slip__begin_end,
    .graph_scalar = slip__begin_scalar,
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

static slip_status_t slip__recorder_create_any(slip__workspace_t *workspace, const slip__run_t *run, slip__boundary_t *boundary,
                                               const slip__builder_limits_t *limits, slip__recorder_t **out) {
  slip_allocator_t allocator = workspace->engine->allocator;
  void *memory;
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, sizeof(slip__recorder_t), &memory));
  slip__recorder_t *recorder = memory;
  recorder->allocator = allocator;
  recorder->run = run;
  recorder->boundary = boundary;
  recorder->heap_limit = limits->max_bytes;
  uint32_t tensor_count = run ? run->tensor_count : boundary->tensor_count, scalar_count = run ? run->scalar_count : boundary->scalar_count;
  slip_status_t status = slip__builder_create(allocator, limits, tensor_count, scalar_count, &recorder->builder);
  if (slip_status_is_ok(status)) status = slip__infer_create(allocator, 2 * limits->max_nodes, &recorder->infer);
  if (!slip_status_is_ok(status)) {
    slip__recorder_destroy(recorder);
    return status;
  }
  *out = recorder;
  return status;
}

slip_status_t slip__recorder_create(slip__workspace_t *workspace, const slip__run_t *run, const slip__builder_limits_t *limits,
                                    slip__recorder_t **out) {
  return slip__recorder_create_any(workspace, run, NULL, limits, out);
}

slip_status_t slip__recorder_create_part(slip__workspace_t *workspace, slip__boundary_t *boundary, const slip__builder_limits_t *limits,
                                         slip__recorder_t **out) {
  return slip__recorder_create_any(workspace, NULL, boundary, limits, out);
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
