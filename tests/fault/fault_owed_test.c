// SPDX-License-Identifier: Apache-2.0
// Two defects that such code has had elsewhere, and their kin: a resource that was taken or not given back must stay known to somebody.
#include "fault_loop.h"

// --- an open that fails after taking resources, and cannot give them back: the handle must come out
// ----------------------------------------

// What gives back what open has taken.
static const slip__platform_call_e fault_owed_calls[] = {SLIP__PLATFORM_CALL_STREAM_DESTROY, SLIP__PLATFORM_CALL_EVENT_DESTROY,
                                                         SLIP__PLATFORM_CALL_MEMORY_FREE};

// Closes under the fault, lifts it, closes.
static void fault_owed_teardown(fault_world_t *world) {
  slip_context_t *other = NULL;
  if (slip_context_state(world->context) != SLIP_CONTEXT_FAILED)
    fault_wrong(world, "a failed open that owes gave another state than FAILED");
  fault_check(world, slip_context_close(world->context), SLIP_CODE_DEVICE, "close while the platform still refuses");
  fault_check(world, slip_context_destroy(world->context), SLIP_CODE_INVALID_STATE, "destroy before close");
  fault_check(world, slip_context_open(&world->options, &other), SLIP_CODE_INVALID_STATE, "open beside a context that owes");
  if (other) fault_wrong(world, "a refused open gave a context");
  slip__platform_fault_clear();
  fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "close once the platform gives back");
  fault_check(world, slip_context_destroy(world->context), SLIP_CODE_OK, "destroy");
  world->context = NULL;
}

// Returns whether the allocation failed; |*inout_owed| counts the contexts that owed.
static bool fault_owed_open(const fault_variant_t *variant, slip__platform_call_e refused, uint64_t nth, const fault_rest_t *rest,
                            fault_counts_t *counts, uint64_t *inout_owed) {
  fault_world_t world;
  char what[160];
  fault_t fault = {FAULT_ALLOCATION, 0, false};
  (void)snprintf(what, sizeof(what), "open (%s) with allocation %llu failing and %s refused", variant->name, (unsigned long long)nth,
                 slip__platform_call_name(refused));
  fault_world_begin(&world, variant, what);
  fault_arm(&world.plan, fault, nth);
  slip__platform_fault_set(refused, 1, true);
  slip_status_t status = slip_context_open(&world.options, &world.context);
  bool hit = fault_disarm(&world.plan);
  fault_check(&world, status, hit ? SLIP_CODE_OUT_OF_MEMORY : SLIP_CODE_OK, "open");
  if (hit && world.context) {
    ++*inout_owed;
    fault_owed_teardown(&world);
  }
  slip__platform_fault_clear();
  fault_world_end(&world, rest);
  counts->faults += hit;
  counts->leaks += world.leaks;
  counts->wrong += world.wrong;
  return hit;
}

static void fault_owed_opens(fault_counts_t *counts, const fault_rest_t *rest) {
  for (uint32_t v = 0; fault_variant_at(v); ++v) {
    uint64_t owed = 0;
    for (size_t c = 0; c < sizeof(fault_owed_calls) / sizeof(fault_owed_calls[0]); ++c) {
      for (uint64_t nth = 1; fault_owed_open(fault_variant_at(v), fault_owed_calls[c], nth, rest, counts, &owed);) ++nth;
    }
    if (owed > 0) continue;
    printf("# no open on %s owed anything: the test tests nothing\n", fault_variant_at(v)->name);
    ++counts->wrong;
  }
}

SLIP_TEST_TIMEOUT(fault_an_open_that_fails_does_not_lose_its_handle, 300) {
  fault_counts_t total = {0, 0, 0, 0};
  fault_in_child("opens that owe", fault_owed_opens, &total);
  fault_report(&total);
}

// --- a release that fails: the block must stay in the books
// --------------------------------------------------------------------------------

// Code that cannot be unloaded: still counted, tried again by each later operation that sweeps, and not unloaded twice.
static void fault_owed_unload(fault_world_t *world) {
  uint64_t before = fault_stats(world).resident_bytes;
  slip__platform_counters_reset();
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MODULE_UNLOAD, 1, true);
  fault_check(world, slip_context_release(world->context, world->control), SLIP_CODE_DEVICE, "a release whose unload fails");
  if (fault_stats(world).resident_bytes != before) fault_wrong(world, "bytes that stay resident are not counted");
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_DEVICE, "a drain that tries again");
  if (fault_stats(world).resident_bytes != before) fault_wrong(world, "bytes that stay resident are forgotten");
  if (slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_UNLOAD) != 2) fault_wrong(world, "the unload was not tried twice");
  slip__platform_fault_clear();
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_OK, "a drain that unloads");
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_OK, "a drain with nothing to do");
  if (slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_UNLOAD) != 3) fault_wrong(world, "the code was unloaded twice");
  if (fault_stats(world).resident_bytes >= before) fault_wrong(world, "bytes that were unloaded are still counted");
  slip__platform_counters_stop();
}

// Each kind of memory in turn cannot be freed by close, which keeps it and frees it once when it can be.
static void fault_owed_free(fault_world_t *world, slip__platform_call_e call, fault_resource_e resource, uint64_t callers_own) {
  uint64_t taken = world->taken[resource];
  slip__platform_fault_set(call, 1, true);
  for (int i = 0; i < 2; ++i) {
    fault_check(world, slip_context_close(world->context), SLIP_CODE_DEVICE, "close while the memory cannot be freed");
    if (slip_context_state(world->context) != SLIP_CONTEXT_CLOSING) fault_wrong(world, "a close that keeps memory is not CLOSING");
  }
  slip__platform_fault_clear();
  fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "close once it can");
  if (world->given[resource] + callers_own != taken) {
    fault_wrong(world, "%llu blocks were given back of %llu", (unsigned long long)world->given[resource],
                (unsigned long long)(taken - callers_own));
  }
}

static void fault_owed_releases(fault_counts_t *counts, const fault_rest_t *rest) {
  for (uint32_t v = 0; fault_variant_at(v); ++v) {
    const fault_variant_t *variant = fault_variant_at(v);
    for (int kind = 0; kind < 3; ++kind) {
      fault_world_t world;
      fault_world_begin(&world, variant, variant->name);
      fault_world_open(&world);
      if (kind == 0) fault_owed_unload(&world);
      if (kind == 1) fault_owed_free(&world, SLIP__PLATFORM_CALL_MEMORY_FREE, FAULT_MEMORY, 4);
      if (kind == 2 && fault_on_sim(&world)) fault_owed_free(&world, SLIP__PLATFORM_CALL_HOST_FREE, FAULT_HOST_MEMORY, 1);
      fault_world_end(&world, rest);
      counts->faults += 2;
      counts->leaks += world.leaks;
      counts->wrong += world.wrong;
    }
  }
}

SLIP_TEST_TIMEOUT(fault_a_release_that_fails_does_not_forget_its_block, 300) {
  fault_counts_t total = {0, 0, 0, 0};
  fault_in_child("releases that fail", fault_owed_releases, &total);
  fault_report(&total);
}

// --- a recording that only its launches keep
// -------------------------------------------------------------------------------------------------

// Destroyed by its owner while a captured graph holds its launches: close must say so, and not wait for it.
static void fault_kept_recordings(fault_counts_t *counts, const fault_rest_t *rest) {
  for (uint32_t v = 0; fault_variant_at(v); ++v) {
    const fault_variant_t *variant = fault_variant_at(v);
    fault_world_t world;
    if (variant->place == FAULT_CPU) continue;
    fault_world_begin(&world, variant, variant->name);
    fault_world_open(&world);
    fault_check(&world, slip_graph_create(world.context, &world.graph), SLIP_CODE_OK, "making a recording");
    for (int i = 0; i < 2; ++i) fault_check(&world, slip_graph_add(world.graph, world.add, &world.frame, NULL), SLIP_CODE_OK, "adding");
    SLIP_CHECK_OK(slip_stream_capture_begin(world.platform, world.stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
    fault_check(&world, slip_graph_launch(world.graph, world.stream, NULL), SLIP_CODE_OK, "launching it in a capture");
    SLIP_CHECK_OK(slip_stream_capture_end(world.platform, world.stream, &world.exec));
    fault_check(&world, slip_graph_destroy(world.graph), SLIP_CODE_OK, "giving the recording up");
    world.graph = NULL;
    fault_check(&world, slip_context_close(world.context), SLIP_CODE_BUSY, "close while a captured graph holds its launches");
    fault_world_end(&world, rest);
    ++counts->faults;
    counts->leaks += world.leaks;
    counts->wrong += world.wrong;
  }
}

SLIP_TEST_TIMEOUT(fault_close_does_not_wait_for_recordings_in_captures, 300) {
  fault_counts_t total = {0, 0, 0, 0};
  fault_in_child("recordings that captures keep", fault_kept_recordings, &total);
  fault_report(&total);
}
