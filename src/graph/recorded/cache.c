// SPDX-License-Identifier: Apache-2.0
#include "graph/recorded/cache.h"

#include <string.h>

#include "base/allocator.h"
#include "base/hash.h"
#include "graph/recorded/entry.h"
#include "graph/recorded/recorder.h"
#include "graph/recorded/replay.h"
#include "graph/recorded/report.h"
#include "graph/stall.h"
#include "os/chaos.h"
#include "os/log.h"

// NEW: seen once, as always.
typedef struct slip__back_entry_t {
  slip__record_head_t head;
  uint32_t recording;  // a run is recording it: others run as always
} slip__back_entry_t;

struct slip__record_back_t {
  slip_allocator_t allocator;
  slip__record_counts_t counts;
  pthread_mutex_t lock;
  // Under |lock|.
  uint64_t clock;
  slip__record_stats_t stats;
  slip__report_said_t said;
  slip__back_entry_t entries[SLIP__RECORD_BACK_COUNT];
};

typedef struct slip__front_entry_t {
  slip__hash128_t key;
  uint64_t used;           // 0: free
  slip__replay_t *replay;  // NULL: refused, not to be asked for again
} slip__front_entry_t;

// Single-owner, as its workspace.
struct slip__record_front_t {
  uint64_t clock;
  uint64_t bytes;
  uint64_t replayed;
  slip__hash128_t key;  // of the run under way
  slip__front_entry_t entries[SLIP__RECORD_FRONT_COUNT];
};

// --- Contract -----------------------------------------------------------------------------------------------------------------------

typedef struct slip__contract_tensor_t {
  uint64_t storage_bytes;
  uint64_t offset;
  int64_t dims[SLIP_MAX_RANK];
  int64_t strides[SLIP_MAX_RANK];
  uint32_t alias;  // the first tensor of the same storage
  uint32_t depth;  // tells what is read-only
  uint32_t dtype_and_rank;
  uint32_t reserved;
} slip__contract_tensor_t;

static void slip__contract_tensor(const slip__run_t *run, uint32_t index, slip__contract_tensor_t *out) {
  const slip_otensor_t *tensor = &run->tensors[index];
  memset(out, 0, sizeof(*out));
  out->storage_bytes = tensor->storage_bytes;
  out->offset = (uint64_t)((uintptr_t)tensor->view.data - (uintptr_t)tensor->storage);
  for (uint32_t d = 0; d < tensor->view.rank && d < SLIP_MAX_RANK; ++d) {
    out->dims[d] = tensor->view.dims[d];
    out->strides[d] = tensor->view.strides[d];
  }
  while (run->tensors[out->alias].storage != tensor->storage) ++out->alias;
  out->depth = tensor->depth;
  out->dtype_and_rank = (uint32_t)tensor->view.dtype << 8 | tensor->view.rank;
}

#define SLIP__CONTRACT_TENSORS 32u  // runs with more are not replayed
#define SLIP__CONTRACT_SCALARS 64u

static bool slip__contract_fits(const slip__run_t *run) {
  return run->tensor_count <= SLIP__CONTRACT_TENSORS && run->scalar_count <= SLIP__CONTRACT_SCALARS;
}

static slip__hash128_t slip__contract_hash(const slip__run_t *run) {
  struct {
    uint64_t head[3];
    slip__contract_tensor_t tensors[SLIP__CONTRACT_TENSORS];
    uint64_t scalars[SLIP__CONTRACT_SCALARS];
  } contract;
  contract.head[0] = run->site->id;
  contract.head[1] = (uint64_t)run->entry << 32 | run->flags;
  contract.head[2] = (uint64_t)run->tensor_count << 32 | run->scalar_count;
  for (uint32_t i = 0; i < run->tensor_count; ++i) slip__contract_tensor(run, i, &contract.tensors[i]);
  uint8_t *end = (uint8_t *)&contract.tensors[run->tensor_count];
  if (run->scalar_count) memcpy(end, run->scalars, run->scalar_count * sizeof(uint64_t));
  end += run->scalar_count * sizeof(uint64_t);
  return slip__hash128((slip_const_bytes_t){.data = (const uint8_t *)&contract, .size = (size_t)(end - (uint8_t *)&contract)});
}

// --- Back ---------------------------------------------------------------------------------------------------------------------------

slip_status_t slip__record_back_create(slip_allocator_t allocator, slip__record_back_t **out) {
  void *memory;
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, sizeof(slip__record_back_t), &memory));
  slip__record_back_t *back = memory;
  back->allocator = allocator;
  (void)pthread_mutex_init(&back->lock, NULL);
  *out = back;
  return slip_ok_status();
}

void slip__record_back_destroy(slip__record_back_t *back) {
  if (!back) return;
  for (uint32_t i = 0; i < SLIP__RECORD_BACK_COUNT; ++i) slip__definition_release(back->entries[i].head.definition);
  (void)pthread_mutex_destroy(&back->lock);
  slip__free(back->allocator, back, sizeof(*back));
}

static void slip__back_drop(slip__record_back_t *back, slip__back_entry_t *entry) {
  if (entry->head.definition) {
    back->stats.bytes -= entry->head.definition->block->bytes;
    --back->stats.count;
    ++back->stats.evicted;
    slip__definition_release(entry->head.definition);
  }
  memset(entry, 0, sizeof(*entry));
}

// Under the lock. The entry of |key|, the oldest one given up for it if need be; NULL if all are being recorded.
static slip__back_entry_t *slip__back_entry(slip__record_back_t *back, slip__hash128_t key, bool add) {
  slip__back_entry_t *entry = slip__record_lookup(back->entries, SLIP__RECORD_BACK_COUNT, sizeof(*entry), key), *oldest = NULL;
  if (entry) entry->head.used = ++back->clock;
  if (entry || !add) return entry;
  for (uint32_t i = 0; i < SLIP__RECORD_BACK_COUNT; ++i) {
    slip__back_entry_t *other = &back->entries[i];
    if (!other->recording && (!oldest || other->head.used < oldest->head.used)) oldest = other;
  }
  if (!oldest) return NULL;
  slip__back_drop(back, oldest);
  oldest->head.key = key;
  oldest->head.used = ++back->clock;
  return oldest;
}

static void slip__back_refuse(slip__record_back_t *back, slip__back_entry_t *entry, const char *reason) {
  if (entry->head.definition) slip__back_drop(back, entry);
  entry->head.step = SLIP__RECORD_REFUSED;
  back->stats.reason = reason;
  ++back->stats.refused;
  atomic_fetch_add_explicit(&back->counts.refused, 1, memory_order_relaxed);
}

// Under the lock: a run of |entry| has been recorded as |definition|, which is taken over.
static void slip__back_recorded(slip__record_back_t *back, slip__back_entry_t *entry, slip__definition_t *definition, const char *reason) {
  slip__hash128_t key = entry->head.key;
  entry->recording = 0;
  if (!definition) {
    slip__back_refuse(back, entry, reason);
  } else if (entry->head.step == SLIP__RECORD_NEW) {
    entry->head.step = SLIP__RECORD_ONCE;
    entry->head.definition = slip__definition_retain(definition);
    back->stats.bytes += definition->block->bytes;
    ++back->stats.count;
    ++back->stats.recorded;
    atomic_fetch_add_explicit(&back->counts.recorded, 1, memory_order_relaxed);
  } else if (entry->head.definition->block->hash == definition->block->hash) {
    entry->head.step = SLIP__RECORD_TRUSTED;
  } else {
    slip__back_refuse(back, entry, "two runs with the same arguments submitted different tasks");
  }
  entry->head.key = key;
  entry->head.used = ++back->clock;
  slip__definition_release(definition);
  while (back->stats.bytes > SLIP__RECORD_BACK_BYTES) {  // the newest is at most one definition's bound, which fits
    slip__back_entry_t *oldest = NULL;
    for (uint32_t i = 0; i < SLIP__RECORD_BACK_COUNT; ++i) {
      slip__back_entry_t *other = &back->entries[i];
      if (other->head.definition && other != entry && !other->recording && (!oldest || other->head.used < oldest->head.used))
        oldest = other;
    }
    if (!oldest) break;
    slip__back_drop(back, oldest);
  }
}

slip__record_counts_t *slip__record_counts(const slip__engine_t *engine) {
  return &engine->recorded->counts;
}

bool slip__record_says(slip__engine_t *engine, uint64_t id) {
  slip__record_back_t *back = engine->recorded;
  slip__report_said_t *said = &back->said;
  bool first = true, full = false;
  (void)pthread_mutex_lock(&back->lock);
  for (uint32_t i = 0; i < said->count && first; ++i) first = said->ids[i] != id;
  if (first && said->count == SLIP__REPORT_LINES) {
    first = false;
    full = !said->full_said;
    said->full_said = true;
  } else if (first) {
    said->ids[said->count++] = id;
  }
  (void)pthread_mutex_unlock(&back->lock);
  if (full) {
    slip__log(SLIP__LOG_WARN, "%u lines about recorded graphs were written; further ones are counted only (slip_context_stats())",
              SLIP__REPORT_LINES);
  }
  return first;
}

slip__record_stats_t slip__record_stats(slip__engine_t *engine) {
  slip__record_back_t *back = engine->recorded;
  (void)pthread_mutex_lock(&back->lock);
  slip__record_stats_t stats = back->stats;
  (void)pthread_mutex_unlock(&back->lock);
  return stats;
}

// --- Front --------------------------------------------------------------------------------------------------------------------------

static slip__front_entry_t *slip__front_find(slip__record_front_t *front, slip__hash128_t key) {
  for (uint32_t i = 0; i < SLIP__RECORD_FRONT_COUNT; ++i) {
    slip__front_entry_t *entry = &front->entries[i];
    if (entry->used && slip__hash128_equal(entry->key, key)) return entry;
  }
  return NULL;
}

static void slip__front_drop(slip__workspace_t *workspace, slip__front_entry_t *entry) {
  if (entry->replay) {
    workspace->recorded->bytes -= entry->replay->bytes;
    slip__replay_destroy(entry->replay, workspace->seat);
  }
  memset(entry, 0, sizeof(*entry));
}

static slip__front_entry_t *slip__front_oldest(slip__record_front_t *front, bool with_replay) {
  slip__front_entry_t *oldest = NULL;
  for (uint32_t i = 0; i < SLIP__RECORD_FRONT_COUNT; ++i) {
    slip__front_entry_t *entry = &front->entries[i];
    if ((!with_replay || entry->replay) && (!oldest || entry->used < oldest->used)) oldest = entry;
  }
  return oldest;
}

// Notes |replay|, or that there is none to be had.
static void slip__front_put(slip__workspace_t *workspace, slip__hash128_t key, slip__replay_t *replay) {
  slip__record_front_t *front = workspace->recorded;
  slip__front_entry_t *entry = slip__front_oldest(front, false);
  slip__front_drop(workspace, entry);
  if (replay) front->bytes += replay->bytes;
  while (front->bytes > SLIP__RECORD_FRONT_BYTES) {
    slip__front_entry_t *oldest = slip__front_oldest(front, true);
    if (!oldest) break;
    slip__front_drop(workspace, oldest);
  }
  *entry = (slip__front_entry_t){.key = key, .used = ++front->clock, .replay = replay};
}

void slip__record_front_destroy(slip__workspace_t *workspace) {
  slip__record_front_t *front = workspace->recorded;
  if (!front) return;
  for (uint32_t i = 0; i < SLIP__RECORD_FRONT_COUNT; ++i) slip__front_drop(workspace, &front->entries[i]);
  slip__free(workspace->engine->allocator, front, sizeof(*front));
  workspace->recorded = NULL;
}

uint64_t slip__record_front_bytes(const slip__workspace_t *workspace) {
  return workspace->recorded ? sizeof(slip__record_front_t) + workspace->recorded->bytes : 0;
}

uint64_t slip__record_replays(const slip__workspace_t *workspace) {
  return workspace->recorded ? workspace->recorded->replayed : 0;
}

// --- Runs ---------------------------------------------------------------------------------------------------------------------------

static void slip__record_replay(slip__workspace_t *workspace, const slip__run_t *run, slip__replay_t *replay) {
  workspace->run = run;
  workspace->status = slip_ok_status();
  atomic_store_explicit(&workspace->failed, 0, memory_order_relaxed);
  slip__stall_begin(workspace);
  slip__chaos_point(SLIP__CHAOS_REPLAY_BIND);
  slip__replay_bind(replay, run->tensors, run->scalars);
  workspace->ran += slip__replay_run(replay, workspace, SLIP__REPLAY_AUTO);
  slip__stall_end(workspace);
  workspace->run = NULL;
}

// Not in the front: what does the back say? Returns an instance to replay.
__attribute__((noinline)) static slip__replay_t *slip__record_ask(slip__workspace_t *workspace, const slip__run_t *run,
                                                                  slip__hash128_t key) {
  slip__engine_t *engine = workspace->engine;
  slip__record_back_t *back = engine->recorded;
  slip__definition_t *definition = NULL;
  bool record = false, refused = false;
  (void)pthread_mutex_lock(&back->lock);
  slip__back_entry_t *entry = slip__back_entry(back, key, false);
  if (!entry) {
    (void)slip__back_entry(back, key, true);  // seen once, after this run
  } else if (entry->head.step == SLIP__RECORD_TRUSTED) {
    definition = slip__definition_retain(entry->head.definition);
  } else if (entry->head.step == SLIP__RECORD_REFUSED) {
    refused = true;
  } else if (!entry->recording) {
    entry->recording = 1;
    record = true;
  }
  (void)pthread_mutex_unlock(&back->lock);
  slip__replay_t *replay = NULL;
  slip_status_t status = slip_ok_status();
  if (definition) {
    status = slip__replay_create(engine, definition, run->object, &replay);
    slip__definition_release(definition);
    refused = !replay;
  }
  if (record) {
    static const slip__builder_limits_t limits = {
        .max_nodes = SLIP__RECORD_MAX_NODES, .max_edges = SLIP__RECORD_MAX_EDGES, .max_bytes = SLIP__RECORD_MAX_BYTES};
    status = slip__recorder_create(workspace, run, &limits, &workspace->recorder);
    if (!workspace->recorder) {
      (void)pthread_mutex_lock(&back->lock);
      entry = slip__back_entry(back, key, false);
      if (entry) entry->recording = 0;
      (void)pthread_mutex_unlock(&back->lock);
    }
  }
  slip_status_free(status);  // short of memory: the run goes its ordinary way
  if (replay || refused) slip__front_put(workspace, key, replay);
  return replay;
}

bool slip__record_begin(slip__workspace_t *workspace, const slip__run_t *run) {
  // A budget is for what it names, and reports of crashes name tasks as they were submitted: both want ordinary runs.
  if (!slip__contract_fits(run) || workspace->budget_bytes || workspace->seat->notes) return false;
  slip__record_front_t *front = workspace->recorded;
  if (__builtin_expect(!front, 0)) {
    void *memory;
    slip_status_t status = slip__alloc(workspace->engine->allocator, sizeof(slip__record_front_t), &memory);
    slip_status_free(status);
    workspace->recorded = front = memory;
    if (!front) return false;
  }
  slip__hash128_t key = slip__contract_hash(run);
  front->key = key;
  slip__front_entry_t *entry = slip__front_find(front, key);
  if (entry) entry->used = ++front->clock;
  slip__replay_t *replay = entry ? entry->replay : slip__record_ask(workspace, run, key);
  if (!replay) return false;
  ++front->replayed;
  slip__workspace_count_replay(workspace);
  slip__record_replay(workspace, run, replay);
  return true;
}

// The recorded run is over.
__attribute__((noinline)) static void slip__record_finish(slip__workspace_t *workspace, bool worth) {
  slip__engine_t *engine = workspace->engine;
  slip__record_back_t *back = engine->recorded;
  const char *reason = NULL;
  uint32_t lanes = engine->thread_count < SLIP__MAX_LANES ? engine->thread_count : SLIP__MAX_LANES;
  slip__definition_t *definition = slip__recorder_finish(workspace->recorder, lanes, &reason);
  workspace->recorder = NULL;
  bool failed = slip__workspace_failed(workspace);
  slip__chaos_point(SLIP__CHAOS_RECORDED);
  (void)pthread_mutex_lock(&back->lock);
  slip__back_entry_t *entry = slip__back_entry(back, workspace->recorded->key, false);
  if (!entry || failed) {  // a run that failed says nothing about the next
    if (entry) entry->recording = 0;
    slip__definition_release(definition);
  } else if (!worth) {
    slip__definition_release(definition);
    slip__back_recorded(back, entry, NULL, "it has too few tasks to be worth it");
  } else {
    slip__back_recorded(back, entry, definition, reason);
  }
  (void)pthread_mutex_unlock(&back->lock);
}

void slip__record_end(slip__workspace_t *workspace, const slip__run_t *run, uint64_t task_count) {
  bool worth = task_count >= SLIP__RECORD_MIN_TASKS;
  // Relaxed: a hint.
  if (worth && !atomic_load_explicit(&run->site->worth, memory_order_relaxed))
    atomic_store_explicit(&run->site->worth, 1, memory_order_relaxed);
  if (workspace->recorder) slip__record_finish(workspace, worth);
}
