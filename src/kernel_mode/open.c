// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/open.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "kernel_mode/lane.h"
#include "kernel_mode/latch.h"
#include "kernel_mode/ticket.h"
#include "os/thread.h"

#define SLIP__SCRATCH_BYTES (256u << 10)  // per thread, so that most callables never make prepare grow it

typedef struct slip__contexts_t {
  pthread_mutex_t lock;
  pthread_cond_t opened;  // some open has its result
  slip_context_t *first;
  uint64_t generation;  // the last one minted
} slip__contexts_t;

static slip__contexts_t slip__contexts = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0};
static _Thread_local bool slip__opening;

// In the child of a process without kernel mode: an open in preflight on another thread may have held the lock.
static void slip__contexts_reset(void) {
  static const slip__contexts_t fresh = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0};
  slip__contexts = fresh;
  slip__opening = false;
}
__attribute__((constructor)) static void slip__contexts_install(void) {
  slip__latch_on_fork(slip__contexts_reset);
}

void slip__contexts_lock(void) {
  pthread_mutex_lock(&slip__contexts.lock);
}
void slip__contexts_unlock(void) {
  pthread_mutex_unlock(&slip__contexts.lock);
}

// Other threads still run while a process exits, and one of them may hold the table for a moment; a process must end all the same.
static bool slip__contexts_lock_soon(void) {
  for (int i = 0; i < 1000; ++i) {
    if (pthread_mutex_trylock(&slip__contexts.lock) == 0) return true;
    const struct timespec pause = {0, 100000};
    (void)nanosleep(&pause, NULL);
  }
  return false;
}

// Contexts still open when the process ends stay as they are (anchored): their device may be gone, their threads may be running, launches
// may be in flight. Nothing of them is touched. They are told about, one line each, since somebody forgot a close.
__attribute__((destructor)) static void slip__contexts_report(void) {
  char lines[4][256];
  uint32_t count = 0;
  if (slip__latch_forked() || !slip__contexts_lock_soon()) return;
  for (const slip_context_t *c = slip__contexts.first; c; c = c->next, ++count) {
    if (count >= sizeof(lines) / sizeof(lines[0])) continue;
    (void)snprintf(lines[count], sizeof(lines[0]),
                   "slipstream: the %s of %s:%d (generation %" PRIu64
                   ") was not closed before the process ended; its resources are left to the system",
                   c->program ? "worker" : "context", c->platform_name, c->device.ordinal, c->generation);
  }
  slip__contexts_unlock();
  for (uint32_t i = 0; i < count && i < sizeof(lines) / sizeof(lines[0]); ++i) (void)fprintf(stderr, "%s\n", lines[i]);
  if (count > sizeof(lines) / sizeof(lines[0])) (void)fprintf(stderr, "slipstream: and %" PRIu32 " more\n", count - 4);
}

static slip_context_t *slip__contexts_find(slip_device_t device) {
  slip_context_t *context = slip__contexts.first;
  while (context && (context->program || context->device.platform != device.platform || context->device.ordinal != device.ordinal)) {
    context = context->next;
  }
  return context;
}

void slip__context_forget(slip_context_t *context) {
  slip__contexts_lock();
  for (slip_context_t **link = &slip__contexts.first; *link; link = &(*link)->next) {
    if (*link != context) continue;
    *link = context->next;
    break;
  }
  slip__contexts_unlock();
}

// --- the memory of a context -------------------------------------------------------------------------------------------------------------

static slip_status_t slip__open_copy_strings(slip_context_t *context, const slip__plan_t *plan) {
  slip_context_options_t *options = &context->options;
  *options = plan->options;
  (void)snprintf(context->platform_name, sizeof(context->platform_name), "%s", plan->options.platform);
  options->platform = context->platform_name;
  if (plan->options.target) {
    (void)snprintf(context->target, sizeof(context->target), "%s", plan->options.target);
    options->target = context->target;
  }
  if (!plan->options.output_directory) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__strndup(context->allocator, plan->options.output_directory, strlen(plan->options.output_directory),
                                     &context->output_directory));
  options->output_directory = context->output_directory;
  return slip_ok_status();
}

static slip_status_t slip__open_create_shell(const slip__plan_t *plan, slip_context_t **out) {
  void *memory = NULL;
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc_aligned(plan->options.allocator, sizeof(slip_context_t), _Alignof(slip_context_t), &memory));
  slip_context_t *context = memory;
  context->allocator = plan->options.allocator;
  context->platform = plan->platform;
  context->device = plan->device;
  context->program = plan->program;
  atomic_init(&context->state, SLIP_CONTEXT_INITIALIZING);
  atomic_init(&context->shell, 1);
  atomic_init(&context->operations, SLIP__GATE_SHUT);
  context->references = 1;
  bool inline_runs = (slip__platform_capabilities(plan->platform) & SLIP_PLATFORM_CAN_INLINE) != 0;
  context->inline_stream = inline_runs ? SLIP_STREAM_INLINE : NULL;
  pthread_mutex_init(&context->drain_lock, NULL);
  pthread_mutex_init(&context->lane_lock, NULL);
  pthread_cond_init(&context->lane_idle, NULL);
  context->locks_made = true;
  slip_status_t status = slip__open_copy_strings(context, plan);
  if (slip_status_is_ok(status)) {
    *out = context;
  } else {
    slip__context_shell_release(context);
  }
  return status;
}

// --- what an open makes; each part is undone by a stage of close
// -----------------------------------------------------------------------------

static slip_status_t slip__open_host_memory(slip_context_t *context) {
  void *slots = NULL;
  SLIP_RETURN_IF_ERROR(slip__registry_initialize(context));
  SLIP_RETURN_IF_ERROR(
      slip__pool_initialize(&context->tickets, slip__context_max_tickets(context), sizeof(slip_ticket_t), context->allocator));
  context->slot_count = context->options.max_in_flight;
  SLIP_RETURN_IF_ERROR(slip__alloc_aligned(context->allocator, context->slot_count * sizeof(slip__slot_t), _Alignof(slip__slot_t), &slots));
  context->slots = slots;
  context->all_slots = context->slot_count == 64 ? UINT64_MAX : (UINT64_C(1) << context->slot_count) - 1;
  atomic_store_explicit(&context->free_slots, context->all_slots, memory_order_relaxed);
  return slip_ok_status();
}

// The argument blocks of the run slots, for the life of the context.
static slip_status_t slip__open_device_block(slip_context_t *context) {
  const uint64_t tensors = SLIP_ENTRY_MAX_TENSORS * sizeof(slip_otensor_t), stride = tensors + SLIP_ENTRY_MAX_SCALARS * sizeof(uint64_t);
  void *block = NULL;
  slip_status_t status = (slip__platform_capabilities(context->platform) & SLIP_PLATFORM_HOST_MEMORY) != 0
                             ? slip_memory_allocate(context->platform, context->device.ordinal, stride * context->slot_count, &block)
                             : slip__alloc_aligned(context->allocator, stride * context->slot_count, 64, &block);
  SLIP_RETURN_IF_ERROR_ANNOTATED(status, "taking the argument blocks of %" PRIu32 " run slots", context->slot_count);
  context->device_block = block;
  context->device_block_bytes = stride * context->slot_count;
  for (uint32_t i = 0; i < context->slot_count; ++i) {
    unsigned char *slot = (unsigned char *)block + i * stride;
    context->slots[i].tensors = (slip_otensor_t *)(void *)slot;
    context->slots[i].scalars = (uint64_t *)(void *)(slot + tensors);
  }
  return slip_ok_status();
}

static slip_status_t slip__open_engine(slip_context_t *context) {
  const slip_context_options_t *options = &context->options;
  slip__engine_options_t engine = {.thread_count = (options->flags & SLIP_CONTEXT_SINGLE_THREAD) ? 1 : options->scheduler_threads,
                                   .scratch_bytes = SLIP__SCRATCH_BYTES,
                                   .pin_workers = (options->flags & SLIP_CONTEXT_PIN_WORKERS) != 0,
                                   .stall_timeout_ms = options->stall_timeout_ms,
                                   .allocator = context->allocator};
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip__engine_create(&engine, &context->engine), "starting the task-graph engine");
  context->scratch_bytes = SLIP__SCRATCH_BYTES;
  slip__workspace_options_t workspace = {.budget_bytes = options->workspace_budget_bytes};
  for (int ring = 0; ring < SLIP_RING_COUNT; ++ring) {
    workspace.task_window[ring] = options->task_window[ring];
    workspace.heap_bytes[ring] = options->heap_bytes[ring];
    workspace.dependency_pool[ring] = options->dependency_pool[ring];
  }
  for (uint32_t i = 0; i < context->slot_count; ++i) {
    SLIP_RETURN_IF_ERROR_ANNOTATED(slip__workspace_create(context->engine, &workspace, &context->slots[i].workspace),
                                   "reserving the workspace of run slot %" PRIu32, i);
    atomic_store_explicit(&context->slots[i].committed_bytes, slip__workspace_committed_bytes(context->slots[i].workspace),
                          memory_order_relaxed);
  }
  return slip_ok_status();
}

static slip_status_t slip__open_build(slip_context_t *context) {
  slip_status_t status = slip__open_host_memory(context);
  // From here on the platform may hold something of ours.
  if (slip_status_is_ok(status)) context->platform_used = true;
  if (slip_status_is_ok(status)) status = slip__open_device_block(context);
  if (slip_status_is_ok(status)) status = slip__lanes_create(context);
  if (slip_status_is_ok(status)) status = slip__open_engine(context);
  return slip_status_annotate(status, "opening a context on %s:%d", context->platform_name, context->device.ordinal);
}

// --- one open does the work, all get its result
// ----------------------------------------------------------------------------------------------

// Table lock held. Ends an attempt: READY, FAILED with teardown owed, or gone from the table.
static void slip__open_publish(slip_context_t *context, slip_status_t status, bool owed) {
  context->result = status;
  context->attempt_done = true;
  if (slip_status_is_ok(status)) {
    slip__gate_open(&context->operations, SLIP__OPERATIONS_ID);
    atomic_store_explicit(&context->state, SLIP_CONTEXT_READY, memory_order_release);
  } else {
    atomic_store_explicit(&context->state, owed ? SLIP_CONTEXT_FAILED : SLIP_CONTEXT_CLOSED, memory_order_release);
  }
  pthread_cond_broadcast(&slip__contexts.opened);
}

// The answer of a finished attempt to one of its callers, whose reference it passes on or gives back. Table lock held; |*out_free| when
// this was the last one.
static slip_status_t slip__open_answer(slip_context_t *context, slip_context_t **out, bool *out_free) {
  slip_context_state_e state = slip__context_state(context);
  slip_status_t status = slip_status_clone(context->result);
  *out_free = false;
  if (state == SLIP_CONTEXT_CLOSED && !slip_status_is_ok(status)) {
    *out_free = --context->references == 0;
  } else {
    *out = context;
  }
  return status;
}

// An accepted foreign build is the first thing to know when something goes wrong later.
static void slip__open_log_build(slip_platform_t *platform, slip_device_t device) {
  char text[512];
  slip_status_t build = slip_platform_check_build(platform, NULL);
  slip_status_format(build, text, sizeof(text));
  slip_status_free(build);
  atomic_fetch_add_explicit(&platform->build_accepted, 1, memory_order_relaxed);
  (void)fprintf(stderr, "slipstream: the context of %s:%d was opened with SLIP_CONTEXT_SKIP_BUILD_CHECK: %s\n",
                slip__platform_name(platform), device.ordinal, text);
}

static slip_status_t slip__open_first(slip_context_t *context, const slip__plan_t *plan, slip_context_t **out) {
  slip_status_t status = slip_ok_status();
  bool owed = false, last = false;
  SLIP__CONTEXT_BOUND(status, context, slip__open_build(context));
  if (!slip_status_is_ok(status)) {
    slip_status_t undo = slip__context_teardown(context);
    owed = !slip_status_is_ok(undo);
    if (owed) undo = slip_status_annotate(undo, "the teardown is owed: close the context, repeatedly if need be");
    status = slip_status_join(status, undo);
    if (!owed) slip__context_forget(context);
  } else if (plan->build_skipped) {
    slip__open_log_build(context->platform, context->device);
  }
  slip__contexts_lock();
  slip__open_publish(context, status, owed);
  status = slip__open_answer(context, out, &last);
  slip__contexts_unlock();
  if (last) slip__context_shell_release(context);
  return status;
}

// Table lock held on entry, not on return.
static slip_status_t slip__open_again(slip_context_t *context, const slip__plan_t *plan, slip_context_t **out) {
  char field[64];
  bool last = false;
  slip_status_t status = slip_ok_status();
  if (slip__context_state(context) == SLIP_CONTEXT_CLOSING) {
    bool running = atomic_load_explicit(&context->closing, memory_order_acquire) != 0;
    status = running ? SLIP_STATUS(SLIP_CODE_BUSY, "the context of %s:%d is closing right now; open again when close has returned",
                                   context->platform_name, context->device.ordinal)
                     : SLIP_STATUS(SLIP_CODE_INVALID_STATE,
                                   "the context of %s:%d was not fully closed; whoever holds it must repeat slip_context_close()",
                                   context->platform_name, context->device.ordinal);
  } else if (slip__options_differ(&context->options, &plan->options, field, sizeof(field))) {
    status = SLIP_STATUS(SLIP_CODE_CONFLICT,
                         "the context of %s:%d is open with other options: %s differs; open with the same options or close it first",
                         context->platform_name, context->device.ordinal, field);
  } else {
    ++context->references;
    while (!context->attempt_done) pthread_cond_wait(&slip__contexts.opened, &slip__contexts.lock);
    status = slip__open_answer(context, out, &last);
  }
  slip__contexts_unlock();
  if (last) slip__context_shell_release(context);
  return status;
}

static void slip__open_insert(slip_context_t *context) {
  uint64_t wanted = context->options.generation;
  context->generation = wanted ? wanted : slip__contexts.generation + 1;
  // Minted numbers stay above those that callers chose, so that none comes twice.
  if (context->generation > slip__contexts.generation) slip__contexts.generation = context->generation;
  context->next = slip__contexts.first;
  slip__contexts.first = context;
}

static slip_status_t slip__open_planned(const slip__plan_t *plan, slip_context_t **out) {
  slip_context_t *fresh = NULL;
  slip__contexts_lock();
  slip_context_t *found = slip__contexts_find(plan->device);
  if (found) return slip__open_again(found, plan, out);
  slip__contexts_unlock();
  SLIP_RETURN_IF_ERROR(slip__open_create_shell(plan, &fresh));
  // The claim is the first thing of the process that changes, and the last one that may refuse without having to undo anything native.
  slip_status_t status = slip__latch_claim(SLIP_MODE_KERNEL);
  if (!slip_status_is_ok(status)) {
    slip__context_shell_release(fresh);
    return status;
  }
  slip__contexts_lock();
  found = slip__contexts_find(plan->device);
  if (found) {
    slip__context_shell_release(fresh);
    return slip__open_again(found, plan, out);
  }
  slip__open_insert(fresh);
  slip__contexts_unlock();
  return slip__open_first(fresh, plan, out);
}

slip_status_t slip__context_open_program(const slip_context_options_t *options, slip_context_t **out) {
  slip__plan_t plan;
  slip_context_t *fresh = NULL;
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__preflight_program(options, &plan));
  SLIP_RETURN_IF_ERROR(slip__open_create_shell(&plan, &fresh));
  slip_status_t status = slip__latch_claim(SLIP_MODE_PROGRAM);
  if (!slip_status_is_ok(status)) {
    slip__context_shell_release(fresh);
    return status;
  }
  slip__contexts_lock();
  slip__open_insert(fresh);
  slip__contexts_unlock();
  return slip__open_first(fresh, &plan, out);
}

slip_status_t slip_context_open(const slip_context_options_t *options, slip_context_t **out) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_context_open"));
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the context");
  *out = NULL;
  if (slip__opening) {
    return SLIP_STATUS(SLIP_CODE_RECURSIVE,
                       "slip_context_open was called from inside a slip_context_open of the same thread (from a callback or an allocator)");
  }
  slip__plan_t plan;
  slip__opening = true;
  slip_status_t status = slip__preflight(options, &plan);
  if (slip_status_is_ok(status)) status = slip__open_planned(&plan, out);
  slip__opening = false;
  return status;
}
