// SPDX-License-Identifier: Apache-2.0
// A stream's thread, and how one piece of work is done.
#include "platform/sim/board.h"

static uint64_t slip__sim_operations;  // guarded by the board

uint64_t slip__sim_worker_operations(void) {
  return slip__sim_operations;
}

void slip__sim_call_guarded(slip__sim_role_e role, int32_t device, void (*function)(void *user), void *user) {
  slip__sim_role_e role_before = slip__sim_role;
  int32_t device_before = slip__sim_running_device;
  slip__sim_role = role;
  slip__sim_running_device = device;
  if (device >= 0) atomic_fetch_add_explicit(&slip__sim_running[device], 1, memory_order_relaxed);
  function(user);
  if (role == SLIP__SIM_ROLE_DEVICE_FUNCTION) slip__sim_maps_end();
  // Release: pairs with the acquire of slip__sim_module_unload.
  if (device >= 0) atomic_fetch_sub_explicit(&slip__sim_running[device], 1, memory_order_release);
  slip__sim_role = role_before;
  slip__sim_running_device = device_before;
}

void slip__sim_work_hold(const slip__sim_work_t *work) {
  if (work->kind != SLIP__SIM_WORK_COPY) return;
  slip__sim_memory_hold(work->copy.target);
  if (!work->copy.staged) slip__sim_memory_hold(work->copy.source);
}

void slip__sim_work_release(const slip__sim_work_t *work) {
  if (work->kind != SLIP__SIM_WORK_COPY) return;
  slip__sim_memory_release(work->copy.target);
  if (!work->copy.staged) slip__sim_memory_release(work->copy.source);
}

void slip__sim_work_execute(const slip__sim_work_t *work, bool abandoned) {
  bool skip = abandoned || slip__sim_device_broken(work->device);
  if (work->kind == SLIP__SIM_WORK_HOST) {
    slip__sim_call_guarded(SLIP__SIM_ROLE_HOST_FUNCTION, -1, work->call.function, work->call.user);
  } else if (work->kind == SLIP__SIM_WORK_DEVICE && !skip) {
    slip__sim_call_guarded(SLIP__SIM_ROLE_DEVICE_FUNCTION, work->device, work->call.function, work->call.user);
  } else if (work->kind == SLIP__SIM_WORK_COPY && !skip) {
    slip__sim_copy_execute(work->device, &work->copy);
  }
}

// A reset of the stream's device ends the wait.
static void slip__sim_worker_wait(const slip__sim_stream_t *stream, slip__sim_mark_t mark) {
  slip__sim_board_lock();
  while (!slip__sim_mark_reached(mark) && !stream->abandoned) slip__sim_board_wait();
  slip__sim_board_unlock();
}

static void slip__sim_worker_step(const slip__sim_stream_t *stream, slip__sim_work_t *work, uint64_t number, bool abandoned) {
  if (!abandoned) slip__sim_delay(stream->ordinal, number);
  switch (work->kind) {
    case SLIP__SIM_WORK_WAIT:
      slip__sim_worker_wait(stream, work->mark);
      break;
    case SLIP__SIM_WORK_GRAPH:
      slip__sim_exec_run(work->graph.exec, work->graph.turn, abandoned);
      break;
    default:
      slip__sim_work_execute(work, abandoned);
      slip__sim_work_release(work);
      if (work->kind == SLIP__SIM_WORK_COPY) slip__sim_copy_discard(&work->copy);
      break;
  }
}

// Sleeps until there is work or the end. False: the end.
static bool slip__sim_worker_await(slip__sim_stream_t *stream) {
  while (stream->done == stream->tail) {
    if (stream->closing) return false;
    uint32_t seen = atomic_load_explicit(&stream->wake, memory_order_relaxed);
    stream->asleep = true;
    slip__sim_board_unlock();
    (void)slip__futex_wait(&stream->wake, seen, -1);
    slip__sim_board_lock();
    stream->asleep = false;
  }
  return true;
}

void slip__sim_worker_run(void *user) {
  slip__sim_stream_t *stream = user;
  slip__sim_board_lock();
  while (slip__sim_worker_await(stream)) {
    slip__sim_work_t work = stream->ring[stream->done % SLIP__SIM_RING];
    uint64_t number = stream->done - stream->base;
    bool abandoned = stream->abandoned;
    slip__sim_board_unlock();
    slip__sim_worker_step(stream, &work, number, abandoned);
    slip__sim_board_lock();
    ++stream->done;
    ++slip__sim_operations;
    slip__sim_board_notify();
  }
  slip__sim_board_unlock();
}
