// SPDX-License-Identifier: Apache-2.0
#include "graph/recorded/begin.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/hash.h"
#include "graph/fault.h"
#include "graph/orch.h"
#include "graph/recorded/cache.h"
#include "graph/recorded/entry.h"
#include "graph/recorded/replay.h"
#include "graph/recorded/report.h"
#include "graph/schedule.h"
#include "graph/stall.h"
#include "os/chaos.h"

typedef struct slip__begin_entry_t {
  slip__record_head_t head;
  struct slip__begin_contract_t *contract;
  slip__replay_t *replay;  // NULL: not made yet
  uint64_t bytes;          // of it and the definition
  uint32_t recordings;
  uint64_t name;                          // the user's key
  uint32_t read, written;                 // bits of boundary tensors
  uint64_t free, tried;                   // bits of scalars: any value will do; |once| has been compared
  uint64_t scalars[SLIP__BEGIN_SCALARS];  // as first recorded
  uint64_t once[SLIP__BEGIN_SCALARS];
} slip__begin_entry_t;

typedef struct slip__begin_level_t {
  const uint64_t *scalars;  // the orchestration's
  uint32_t scalar_count;
  uint32_t depth, generation;  // of its scope
  slip__begin_entry_t *entry;  // being recorded; NULL: not recorded
} slip__begin_level_t;

struct slip__begins_t {
  uint64_t clock;
  slip__begin_stats_t stats;
  slip__report_memo_t said;
  uint32_t level_count;
  bool replayed;  // the last begin: its end is next
  slip__begin_level_t levels[SLIP__BEGIN_LEVELS];
  // Of the recording under way, or of the begin.
  slip__boundary_t boundary;
  slip__bound_t bounds[SLIP__BEGIN_TENSORS];
  slip__begin_entry_t *recording;  // NULL: none; the workspace's recorder is then not ours
  slip__begin_entry_t entries[SLIP__BEGIN_COUNT];
};

__attribute__((noinline, cold)) static void slip__begin_fail(slip__workspace_t *workspace, slip_status_t status) {
  slip__workspace_fail(workspace, slip__fault_here(workspace, status));
}

// --- Contract -----------------------------------------------------------------------------------------------------------------------

bool slip__bound_of(const slip_otensor_t *tensor, slip__bound_t *out) {
  const slip_ktensor_t *view = &tensor->view;
  int64_t low = 0, high = 0, size = slip_dtype_carrier_bytes(view->dtype), span;
  bool empty = false;
  if (!tensor->storage || !view->data || view->rank > SLIP_MAX_RANK || size <= 0) return false;
  for (uint32_t d = 0; d < view->rank; ++d) {
    if (view->dims[d] < 0) return false;
    if (view->dims[d] == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(view->dims[d] - 1, view->strides[d], &span) || __builtin_mul_overflow(span, size, &span) ||
               __builtin_add_overflow(span < 0 ? low : high, span, span < 0 ? &low : &high)) {
      return false;
    }
  }
  if (__builtin_add_overflow(high, size, &high)) return false;
  uint64_t at = (uint64_t)(uintptr_t)view->data;
  if (empty) low = high = 0;
  if (__builtin_add_overflow(at, low, &at) || at < (uintptr_t)tensor->storage) return false;
  uint64_t bytes = (uint64_t)high - (uint64_t)low, offset = at - (uintptr_t)tensor->storage;
  if (tensor->storage_bytes && (offset > tensor->storage_bytes || bytes > tensor->storage_bytes - offset)) return false;
  if (bytes > UINTPTR_MAX - at) return false;
  *out = (slip__bound_t){.low = (uintptr_t)at, .end = (uintptr_t)(at + bytes), .base = (uintptr_t)at};
  return true;
}

// Fills in the bounds and their groups: tensors of one storage that share bytes, or are linked by others that do. False: not to be
// recorded.
static bool slip__begin_bounds(const slip__workspace_t *workspace, const slip_otensor_t *tensors, uint32_t count, slip__bound_t *bounds) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!slip__bound_of(&tensors[i], &bounds[i]) || slip__tensor_is_stale(workspace, &tensors[i])) return false;
    bounds[i].root = i;
    for (uint32_t j = 0; j < i; ++j) {
      if (tensors[j].storage != tensors[i].storage || bounds[j].low >= bounds[i].end || bounds[i].low >= bounds[j].end) continue;
      uint32_t a = bounds[i].root, b = bounds[j].root, low = a < b ? a : b;
      for (uint32_t k = 0; k <= i; ++k) {
        if (bounds[k].root == a || bounds[k].root == b) bounds[k].root = low;
      }
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    slip__bound_t *root = &bounds[bounds[i].root];
    if (bounds[i].low < root->base) root->base = bounds[i].low;
  }
  for (uint32_t i = 0; i < count; ++i) bounds[i].base = bounds[bounds[i].root].base;
  return true;
}

typedef struct slip__begin_tensor_t {
  uint64_t offset;  // in its group
  int64_t dims[SLIP_MAX_RANK];
  int64_t strides[SLIP_MAX_RANK];
  uint32_t root;
  uint32_t read_only;
  uint32_t dtype_and_rank;
  uint32_t reserved;
} slip__begin_tensor_t;

// Without padding, and as many tensors as there are: hashed and compared as bytes.
typedef struct slip__begin_contract_t {
  uint64_t object, entry_and_flags, key;
  uint32_t tensor_count, scalar_count;
  slip__begin_tensor_t tensors[SLIP__BEGIN_TENSORS];
} slip__begin_contract_t;

_Static_assert(offsetof(slip__begin_contract_t, tensors) == 32, "hashed as bytes: no padding");

static size_t slip__begin_contract_bytes(uint32_t tensor_count) {
  return offsetof(slip__begin_contract_t, tensors) + tensor_count * sizeof(slip__begin_tensor_t);
}

static void slip__begin_contract(const slip__workspace_t *workspace, uint64_t key, const slip_otensor_t *tensors, uint32_t tensor_count,
                                 uint32_t scalar_count, const slip__bound_t *bounds, slip__begin_contract_t *out) {
  const slip__run_t *run = workspace->run;
  out->object = workspace->object_serial;
  out->entry_and_flags = (uint64_t)run->entry << 32 | run->flags;
  out->key = key;
  out->tensor_count = tensor_count;
  out->scalar_count = scalar_count;
  for (uint32_t i = 0; i < tensor_count; ++i) {
    slip__begin_tensor_t *to = &out->tensors[i];
    const slip_ktensor_t *view = &tensors[i].view;
    memset(to, 0, sizeof(*to));
    to->offset = bounds[i].low - bounds[i].base;
    for (uint32_t d = 0; d < view->rank; ++d) to->dims[d] = view->dims[d], to->strides[d] = view->strides[d];
    to->root = bounds[i].root;
    to->read_only = tensors[i].generation == 0 && tensors[i].depth == SLIP_OTENSOR_READ_ONLY;
    to->dtype_and_rank = (uint32_t)view->dtype << 8 | view->rank;
  }
}

static void slip__begin_tensor_text(const slip__begin_tensor_t *tensor, char *text, size_t capacity) {
  slip__report_shape(tensor->dtype_and_rank >> 8, tensor->dtype_and_rank & 255, tensor->dims, tensor->strides, text, capacity);
}

// |key| has been recorded with contract |was| and now comes with |is|.
static void slip__begin_tell_mismatch(slip__workspace_t *workspace, const slip__begin_contract_t *was, const slip__begin_contract_t *is) {
  static const char now[] = "that is another graph, which runs as written and is recorded beside the first";
  char why[2 * SLIP__REPORT_TEXT], first[SLIP__REPORT_TEXT / 2], second[SLIP__REPORT_TEXT / 2];
  (void)snprintf(why, sizeof(why), "it was begun with %" PRIu32 " tensors and %" PRIu32 " scalars, and now with %" PRIu32 " and %" PRIu32,
                 was->tensor_count, was->scalar_count, is->tensor_count, is->scalar_count);
  for (uint32_t i = 0; i < was->tensor_count && was->tensor_count == is->tensor_count; ++i) {
    const slip__begin_tensor_t *a = &was->tensors[i], *b = &is->tensors[i];
    if (memcmp(a, b, sizeof(*a)) == 0) continue;
    slip__begin_tensor_text(a, first, sizeof(first));
    slip__begin_tensor_text(b, second, sizeof(second));
    if (strcmp(first, second) != 0) {
      (void)snprintf(why, sizeof(why), "tensor %" PRIu32 " was %s when it was recorded, and is %s", i, first, second);
    } else if (a->read_only != b->read_only) {
      (void)snprintf(why, sizeof(why), "tensor %" PRIu32 " was %s when it was recorded, and is %s", i,
                     a->read_only ? "read-only" : "to be written", b->read_only ? "read-only" : "to be written");
    } else {
      (void)snprintf(why, sizeof(why), "tensor %" PRIu32 " shares other bytes with the other tensors than when it was recorded", i);
    }
    break;
  }
  slip__report_graph(workspace, is->key, "has another contract than before", why, now);
}

// --- Entries ------------------------------------------------------------------------------------------------------------------------

static void slip__begin_drop(slip__workspace_t *workspace, slip__begin_entry_t *entry) {
  slip__replay_destroy(entry->replay, workspace->seat);
  slip__definition_release(entry->head.definition);
  if (entry->contract) slip__free(workspace->engine->allocator, entry->contract, slip__begin_contract_bytes(entry->contract->tensor_count));
  workspace->begins->stats.bytes -= entry->bytes;
  entry->contract = NULL;
  entry->replay = NULL;
  entry->head.definition = NULL;
  entry->bytes = 0;
}

// |reason| is constant text, |detail| more of it, said but not kept.
static void slip__begin_refuse(slip__workspace_t *workspace, slip__begin_entry_t *entry, const char *reason, const char *detail) {
  slip__begins_t *begins = workspace->begins;
  slip__begin_drop(workspace, entry);
  entry->head.step = SLIP__RECORD_REFUSED;
  begins->stats.reason = reason;
  ++begins->stats.refused;
  atomic_fetch_add_explicit(&slip__record_counts(workspace->engine)->refused, 1, memory_order_relaxed);
  if (!slip__report_once(workspace, &begins->said, entry->name, SLIP__REPORT_REFUSED)) return;
  char why[2 * SLIP__REPORT_TEXT];
  (void)snprintf(why, sizeof(why), "%s%s", reason, detail);
  slip__report_graph(workspace, entry->name, "is never replayed with this contract", why, "its body runs each time, as written");
}

// |entry| has grown by |bytes|: others go if it is too much.
static void slip__begin_grow(slip__workspace_t *workspace, slip__begin_entry_t *entry, uint64_t bytes) {
  slip__begins_t *begins = workspace->begins;
  entry->bytes += bytes;
  begins->stats.bytes += bytes;
  while (begins->stats.bytes > SLIP__BEGIN_BYTES) {
    slip__begin_entry_t *oldest = NULL;
    for (uint32_t i = 0; i < SLIP__BEGIN_COUNT; ++i) {
      slip__begin_entry_t *other = &begins->entries[i];
      if (other != entry && other->bytes && (!oldest || other->head.used < oldest->head.used)) oldest = other;
    }
    if (!oldest) break;
    slip__begin_drop(workspace, oldest);
    memset(oldest, 0, sizeof(*oldest));
    ++begins->stats.evicted;
  }
}

// Another contract of the same key is known, and it has not been said.
static void slip__begin_look_for_mismatch(slip__workspace_t *workspace, const slip__begin_contract_t *contract) {
  slip__begins_t *begins = workspace->begins;
  for (uint32_t i = 0; i < SLIP__BEGIN_COUNT; ++i) {
    const slip__begin_contract_t *other = begins->entries[i].contract;
    if (!other || other->key != contract->key || other->object != contract->object || other->entry_and_flags != contract->entry_and_flags)
      continue;
    if (slip__report_once(workspace, &begins->said, contract->key, SLIP__REPORT_MISMATCH))
      slip__begin_tell_mismatch(workspace, other, contract);
    return;
  }
}

static void slip__begin_keep_contract(slip__workspace_t *workspace, slip__begin_entry_t *entry, const slip__begin_contract_t *contract) {
  size_t bytes = slip__begin_contract_bytes(contract->tensor_count);
  void *memory;
  slip_status_t status = slip__alloc(workspace->engine->allocator, bytes, &memory);
  slip_status_free(status);  // short of memory: a mismatch will not be said
  if (!memory) return;
  memcpy(memory, contract, bytes);
  entry->contract = memory;
}

static slip__begin_entry_t *slip__begin_find(slip__workspace_t *workspace, const slip__begin_contract_t *contract) {
  slip__begins_t *begins = workspace->begins;
  slip__hash128_t key =
      slip__hash128((slip_const_bytes_t){.data = (const uint8_t *)contract, .size = slip__begin_contract_bytes(contract->tensor_count)});
  slip__begin_entry_t *entry = slip__record_lookup(begins->entries, SLIP__BEGIN_COUNT, sizeof(*entry), key), *oldest = begins->entries;
  if (entry) {
    entry->head.used = ++begins->clock;
    return entry;
  }
  for (uint32_t i = 0; i < SLIP__BEGIN_COUNT; ++i) {
    if (begins->entries[i].head.used < oldest->head.used) oldest = &begins->entries[i];
  }
  slip__begin_look_for_mismatch(workspace, contract);
  if (oldest->head.used) ++begins->stats.evicted;
  slip__begin_drop(workspace, oldest);
  memset(oldest, 0, sizeof(*oldest));
  oldest->head.key = key;
  oldest->head.used = ++begins->clock;
  oldest->name = contract->key;
  slip__begin_keep_contract(workspace, oldest, contract);
  return oldest;
}

// Scalars that are not free and have another value than the one recorded.
static uint64_t slip__begin_changed(const slip__begin_entry_t *entry, const slip__boundary_t *boundary) {
  uint64_t changed = 0;
  for (uint32_t i = 0; i < boundary->scalar_count; ++i) {
    if (boundary->scalars[i] != entry->scalars[i]) changed |= UINT64_C(1) << i;
  }
  return changed & ~entry->free;
}

// The body of |entry| has been recorded again and made the same graph.
static void slip__begin_agreed(slip__workspace_t *workspace, slip__begin_entry_t *entry, const slip__boundary_t *boundary) {
  uint64_t changed = slip__begin_changed(entry, boundary);
  entry->head.step = SLIP__RECORD_TRUSTED;
  if (changed && (changed & (changed - 1)) == 0) {
    uint32_t i = (uint32_t)__builtin_ctzll(changed);
    if (!(entry->tried & changed)) {
      entry->tried |= changed;
      entry->once[i] = boundary->scalars[i];
    } else if (entry->once[i] != boundary->scalars[i]) {
      entry->free |= changed;
      entry->recordings = 0;
    }
  }
  if (++entry->recordings > SLIP__BEGIN_PATIENCE)
    slip__begin_refuse(workspace, entry, "its scalars change together, so that no comparison tells what follows from which", "");
}

// Of the recording under way, whose body is over.
static void slip__begin_recorded(slip__workspace_t *workspace) {
  slip__begins_t *begins = workspace->begins;
  slip__begin_entry_t *entry = begins->recording;
  slip__boundary_t *boundary = &begins->boundary;
  const char *reason = NULL;
  uint32_t threads = slip__engine_thread_count(workspace->engine);
  slip__definition_t *definition =
      slip__recorder_finish(workspace->recorder, threads < SLIP__MAX_LANES ? threads : SLIP__MAX_LANES, &reason);
  workspace->recorder = NULL;
  workspace->orch.api = &slip__orch_api;
  begins->recording = NULL;
  if (slip__workspace_failed(workspace)) {  // says nothing about the next call
    slip__definition_release(definition);
    return;
  }
  ++begins->stats.recorded;
  if (!definition || definition->block->node_count == 0) {
    slip__begin_refuse(workspace, entry, definition ? "it has no tasks" : reason, "");
  } else if (entry->head.step == SLIP__RECORD_NEW) {
    entry->head.step = SLIP__RECORD_ONCE;
    entry->head.definition = slip__definition_retain(definition);
    entry->read = boundary->read;
    entry->written = boundary->written;
    if (boundary->scalar_count) memcpy(entry->scalars, boundary->scalars, boundary->scalar_count * sizeof(uint64_t));
    atomic_fetch_add_explicit(&slip__record_counts(workspace->engine)->recorded, 1, memory_order_relaxed);
    slip__begin_grow(workspace, entry, definition->block->bytes);
  } else if (entry->head.definition->block->hash == definition->block->hash && entry->read == boundary->read &&
             entry->written == boundary->written) {
    slip__begin_agreed(workspace, entry, boundary);
  } else {
    char detail[SLIP__REPORT_TEXT];
    slip__report_difference(entry->head.definition->block, definition->block, workspace->run->object, detail, sizeof(detail));
    slip__begin_refuse(workspace, entry, "two calls with the same contract submitted different tasks", detail);
  }
  slip__definition_release(definition);
}

// --- Begin --------------------------------------------------------------------------------------------------------------------------

static void slip__begin_replay(slip__workspace_t *workspace, const slip__begin_entry_t *entry, const slip_otensor_t *tensors) {
  slip__begins_t *begins = workspace->begins;
  slip_otensor_t bound[SLIP__BEGIN_TENSORS];
  slip__release_held(workspace);
  for (uint32_t i = 0; i < begins->boundary.tensor_count; ++i) {
    const slip__bound_t *bytes = &begins->bounds[i];
    bound[i].storage = (void *)bytes->low;
    if (!((entry->read >> i) & 1) || bytes->low == bytes->end) continue;
    slip__wait_region(workspace, tensors[i].storage, (const void *)bytes->low, bytes->end - bytes->low, (entry->written >> i) & 1);
  }
  if (slip__workspace_failed(workspace)) return;
  ++begins->stats.replayed;
  slip__workspace_count_replay(workspace);
  slip__queue_publish(&workspace->seat->queue);
  slip__chaos_point(SLIP__CHAOS_REPLAY_BIND);
  slip__replay_bind(entry->replay, bound, begins->boundary.scalars);
  workspace->ran += slip__replay_run(entry->replay, workspace, SLIP__REPLAY_AUTO);
  slip__stall_begin(workspace);  // the run goes on
}

// What is to be done with a graph whose boundary is filled in. True: it has been replayed.
static bool slip__begin_decide(slip__workspace_t *workspace, uint64_t key, const slip_otensor_t *tensors) {
  static const slip__builder_limits_t limits = {
      .max_nodes = SLIP__RECORD_MAX_NODES, .max_edges = SLIP__RECORD_MAX_EDGES, .max_bytes = SLIP__RECORD_MAX_BYTES};
  slip__begins_t *begins = workspace->begins;
  slip__boundary_t *boundary = &begins->boundary;
  slip__begin_contract_t contract;
  slip__begin_contract(workspace, key, tensors, boundary->tensor_count, boundary->scalar_count, boundary->bounds, &contract);
  slip__begin_entry_t *entry = slip__begin_find(workspace, &contract);
  slip_status_t status = slip_ok_status();
  if (entry->head.step == SLIP__RECORD_REFUSED) return false;
  if (entry->head.step == SLIP__RECORD_TRUSTED && slip__begin_changed(entry, boundary) == 0) {
    if (!entry->replay) {
      status = slip__replay_create(workspace->engine, entry->head.definition, workspace->run->object, &entry->replay);
      slip_status_free(status);  // short of memory: the body runs
      if (!entry->replay) return false;
      slip__begin_grow(workspace, entry, entry->replay->bytes);
    }
    slip__begin_replay(workspace, entry, tensors);
    return true;
  }
  status = slip__recorder_create_part(workspace, boundary, &limits, &workspace->recorder);
  slip_status_free(status);
  if (workspace->recorder) begins->recording = entry;
  return false;
}

static bool slip__begin_is_good(slip__workspace_t *workspace, const slip_otensor_t *tensors, uint32_t tensor_count, const uint64_t *scalars,
                                uint32_t scalar_count) {
  slip__begins_t *begins = workspace->begins;
  if (!begins) {
    void *memory;
    slip_status_t status = slip__alloc(workspace->engine->allocator, sizeof(slip__begins_t), &memory);
    if (!memory) {
      slip__begin_fail(workspace, status);
      return false;
    }
    workspace->begins = begins = memory;
  }
  slip_status_t status;
  if ((tensor_count && !tensors) || (scalar_count && !scalars)) {
    status = SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                         "graph_begin() was given %" PRIu32 " tensors at %s and %" PRIu32
                         " scalars at %s; expected an array where the count is not 0",
                         tensor_count, tensors ? "an array" : "NULL", scalar_count, scalars ? "an array" : "NULL");
  } else if (begins->replayed) {
    status = SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                         "graph_begin() before the graph_end() of a graph that was replayed; run the body only if begin returns 1, and "
                         "end each graph");
  } else if (begins->level_count == SLIP__BEGIN_LEVELS || workspace->depth == SLIP__MAX_SCOPE_DEPTH) {
    status = SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                         "graph_begin() inside %" PRIu32 " graphs and %" PRIu32 " scopes; at most %u and %d are possible: end some",
                         begins->level_count, workspace->depth, SLIP__BEGIN_LEVELS, SLIP__MAX_SCOPE_DEPTH);
  } else {
    return true;
  }
  slip__begin_fail(workspace, status);
  return false;
}

// Why a graph here cannot be recorded; NULL: it can.
static const char *slip__begin_unfit(const slip__workspace_t *workspace, uint32_t tensor_count, uint32_t scalar_count) {
  if (tensor_count > SLIP__BEGIN_TENSORS) return "it has more than 32 tensors";
  if (scalar_count > SLIP__BEGIN_SCALARS) return "it has more than 64 scalars";
  if (workspace->scopes[workspace->depth].mode != SLIP_SCOPE_AUTO) return "it begins inside SLIP_SCOPE_MANUAL, where nothing is inferred";
  // As cache.h: a budget is for what it names, and reports of crashes name tasks as they were submitted.
  if (workspace->budget_bytes) return "the workspace has a budget (workspace_budget_bytes), which recordings do not count against";
  return workspace->seat->notes ? "reports of crashes are asked for, which name tasks as they were submitted" : NULL;
}

int32_t slip__begin_graph(slip_orch_t *o, uint64_t key, const slip_otensor_t *tensors, uint32_t tensor_count, const uint64_t *scalars,
                          uint32_t scalar_count) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  if (slip__workspace_failed(workspace) || !slip__begin_is_good(workspace, tensors, tensor_count, scalars, scalar_count)) return 0;
  slip__begins_t *begins = workspace->begins;
  bool inside = begins->recording != NULL;
  if (inside) slip__recorder_refuse(workspace->recorder, "a graph begins in it");
  const char *unfit = workspace->recorder ? NULL : slip__begin_unfit(workspace, tensor_count, scalar_count);
  if (unfit && slip__report_once(workspace, &begins->said, key, SLIP__REPORT_UNFIT))
    slip__report_graph(workspace, key, "is not recorded", unfit, "its body runs each time, as written");
  if (!workspace->recorder && !unfit && slip__begin_bounds(workspace, tensors, tensor_count, begins->bounds)) {
    begins->boundary =
        (slip__boundary_t){.bounds = begins->bounds, .scalars = scalars, .tensor_count = tensor_count, .scalar_count = scalar_count};
    if (slip__begin_decide(workspace, key, tensors)) {
      begins->replayed = true;
      return 0;
    }
  }
  slip__scope_open(workspace, workspace->depth + 1, SLIP_SCOPE_AUTO);
  begins->levels[begins->level_count++] = (slip__begin_level_t){.scalars = scalars,
                                                                .scalar_count = scalar_count,
                                                                .depth = workspace->depth,
                                                                .generation = workspace->generation,
                                                                .entry = inside ? NULL : begins->recording};
  if (begins->levels[begins->level_count - 1].entry) workspace->orch.api = &slip__recorder_api;
  return 1;
}

void slip__begin_end(slip_orch_t *o) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  slip__begins_t *begins = workspace->begins;
  if (slip__workspace_failed(workspace)) return;
  if (begins && begins->replayed) {
    begins->replayed = false;
    return;
  }
  if (!begins || begins->level_count == 0) {
    slip__begin_fail(workspace, SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK, "graph_end() without a graph_begin(); end each graph once"));
    return;
  }
  const slip__begin_level_t *level = &begins->levels[begins->level_count - 1];
  if (workspace->depth != level->depth || workspace->scopes[level->depth].generation != level->generation) {
    slip__begin_fail(workspace, SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                                            "graph_end() at scope depth %" PRIu32 ", but the graph began at %" PRIu32
                                            "; end the scopes that its body begins, and no others",
                                            workspace->depth, level->depth - 1));
    return;
  }
  --begins->level_count;
  if (!level->entry) {
    o->api->scope_end(o);  // through the recorder, if the whole run is recorded
    return;
  }
  slip__orch_api.scope_end(o);
  slip__begin_recorded(workspace);
}

uint64_t slip__begin_scalar(slip_orch_t *o, const uint64_t *place, uint32_t index, uint64_t mul, uint64_t add) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  slip__begins_t *begins = workspace->begins;
  if (slip__workspace_failed(workspace)) return 0;
  const slip__begin_level_t *level = begins && begins->level_count ? &begins->levels[begins->level_count - 1] : NULL;
  if (!level || index >= level->scalar_count || begins->replayed) {
    slip__begin_fail(workspace, SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                                            "a task scalar is to come from boundary scalar %" PRIu32 " of %s, which has %" PRIu32
                                            "; give it to graph_begin(), and submit between begin and end",
                                            index, level ? "the graph" : "no graph", level ? level->scalar_count : 0));
    return 0;
  }
  if (level->entry) slip__recorder_derive(workspace->recorder, place, index, mul, add);
  return level->scalars[index] * mul + add;
}

// --- Life ---------------------------------------------------------------------------------------------------------------------------

void slip__begins_end_run(slip__workspace_t *workspace) {
  slip__begins_t *begins = workspace->begins;
  if ((begins->level_count || begins->replayed) && !slip__workspace_failed(workspace)) {
    slip__begin_fail(workspace, SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                                            "the orchestration returned with a graph still open; call graph_end() for each graph_begin()"));
  }
  begins->level_count = 0;
  begins->replayed = false;
  if (begins->recording) slip__begin_recorded(workspace);
}

void slip__begins_destroy(slip__workspace_t *workspace) {
  slip__begins_t *begins = workspace->begins;
  if (!begins) return;
  for (uint32_t i = 0; i < SLIP__BEGIN_COUNT; ++i) slip__begin_drop(workspace, &begins->entries[i]);
  slip__free(workspace->engine->allocator, begins, sizeof(*begins));
  workspace->begins = NULL;
}

slip__begin_stats_t slip__begin_stats(const slip__workspace_t *workspace) {
  return workspace->begins ? workspace->begins->stats : (slip__begin_stats_t){0};
}
