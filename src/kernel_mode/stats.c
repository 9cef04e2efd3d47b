// SPDX-License-Identifier: Apache-2.0
#include "base/versioned.h"
#include "graph/recorded/cache.h"
#include "kernel_mode/context.h"
#include "kernel_mode/latch.h"

static uint64_t slip__stats_read(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void slip__stats_slots(const slip_context_t *context, slip_context_stats_t *stats) {
  for (uint32_t i = 0; i < context->slot_count; ++i) {
    const slip__slot_t *slot = &context->slots[i];
    uint64_t launches = slip__stats_read(&slot->inline_launches);
    stats->launches += launches;
    stats->retired += launches;
    stats->faulted += slip__stats_read(&slot->inline_faults);
    stats->tasks += slip__stats_read(&slot->tasks);
    stats->replays += slip__workspace_replay_count(slot->workspace);
    stats->workspace_bytes += slip__stats_read(&slot->committed_bytes);
  }
}

slip_status_t slip_context_stats(slip_context_t *context, slip_context_stats_t *out) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_context_stats"));
  if (!context || !out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s is NULL", context ? "out" : "context");
  if (out->struct_size < sizeof(uint32_t))
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "slip_context_stats_t.struct_size is %u, expected its size", out->struct_size);
  slip_context_stats_t stats = {.refused = slip__stats_read(&context->refused)};
  // Not slip__context_enter: a poisoned context still has its statistics.
  if (!slip__gate_enter(&context->operations, SLIP__OPERATIONS_ID)) return slip__context_refuse_state(context, "stats");
  pthread_mutex_lock(&context->registry.lock);
  stats.callables = context->registry.callables;
  stats.resident_bytes = context->registry.resident_bytes;
  pthread_mutex_unlock(&context->registry.lock);
  slip__stats_slots(context, &stats);
  // Retired first: read the other way round, a launch in between would count as retired but not as made.
  stats.retired += slip__stats_read(&context->retired) + slip__stats_read(&context->replay_retired);
  stats.faulted += slip__stats_read(&context->faulted);
  stats.launches += slip__stats_read(&context->admitted) + slip__stats_read(&context->replay_admitted);
  stats.pending = (uint64_t)atomic_load_explicit(&context->pending, memory_order_relaxed) +
                  atomic_load_explicit(&context->abandoned_count, memory_order_relaxed);
  stats.captured = atomic_load_explicit(&context->captured, memory_order_relaxed);
  const slip__record_counts_t *recordings = slip__record_counts(context->engine);
  stats.recordings = slip__stats_read(&recordings->recorded);
  stats.recordings_refused = slip__stats_read(&recordings->refused);
  stats.workers = slip__engine_thread_count(context->engine);
  slip__context_leave(context);
  slip__versioned_give(&stats, sizeof(stats), out);
  return slip_ok_status();
}
