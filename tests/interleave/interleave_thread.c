// SPDX-License-Identifier: Apache-2.0
// What one thread does: random calls, each with the answers that are right for it.
#include "interleave.h"

uint32_t interleave_pick(interleave_thread_t *thread, uint32_t bound) {
  uint64_t z = (thread->random += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ (z >> 31)) % bound);
}

static void interleave_released(void *user) {
  interleave_world_t *world = user;
  atomic_fetch_add(&world->released, 1);
}

// A refusal is fine for the reasons that another thread's close, or captures in progress, can give; anything else fails the test.
static bool interleave_accepted(interleave_thread_t *thread, slip_status_t status, const char *what) {
  slip_code_t code = slip_status_code(status);
  bool known = code == SLIP_CODE_OK || code == SLIP_CODE_INVALID_STATE || code == SLIP_CODE_BUSY;
  if (!known) {
    char text[1024];
    (void)slip_status_format(status, text, sizeof(text));
    slip_test_fail(__FILE__, __LINE__, "seed %llu, thread %u: %s: %s", (unsigned long long)thread->world->seed, thread->index, what, text);
  }
  slip_status_free(status);
  if (code != SLIP_CODE_OK) ++thread->refused;
  return code == SLIP_CODE_OK;
}

static interleave_stream_t *interleave_borrow(interleave_thread_t *thread) {
  interleave_stream_t *stream = &thread->world->streams[interleave_pick(thread, INTERLEAVE_STREAMS)];
  pthread_mutex_lock(&stream->lock);
  return stream;
}

static void interleave_give_back(interleave_stream_t *stream) {
  pthread_mutex_unlock(&stream->lock);
}

// What the thread enqueues next on |stream| comes after all it has enqueued anywhere.
static void interleave_after_last(interleave_thread_t *thread, slip_stream_t stream) {
  if (thread->recorded) SLIP_CHECK_OK(slip_stream_wait_event(thread->world->platform, stream, thread->last));
}

static void interleave_mark(interleave_thread_t *thread, slip_stream_t stream) {
  SLIP_CHECK_OK(slip_event_record(thread->world->platform, thread->last, stream));
  thread->recorded = true;
}

static interleave_add_t interleave_pick_add(interleave_thread_t *thread) {
  interleave_add_t add = {interleave_pick(thread, INTERLEAVE_BUFFERS), interleave_pick(thread, INTERLEAVE_BUFFERS), 0};
  do {
    add.z = interleave_pick(thread, INTERLEAVE_BUFFERS);
  } while (add.z == add.x || add.z == add.y);  // an output must not alias an input
  return add;
}

static void interleave_apply(interleave_thread_t *thread, interleave_add_t add) {
  for (int i = 0; i < INTERLEAVE_ELEMENTS; ++i) thread->oracle[add.z][i] = thread->oracle[add.x][i] + thread->oracle[add.y][i];
}

// One launch on |stream|; true if it was accepted.
static bool interleave_launch(interleave_thread_t *thread, slip_stream_t stream, interleave_add_t add, bool with_ticket) {
  interleave_world_t *world = thread->world;
  int32_t id = thread->id >= 0 && interleave_pick(thread, 2) ? thread->id : world->shared_id;
  slip_signature_t *signature = NULL;
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  if (!interleave_accepted(thread, slip_context_signature(world->context, id, &signature), "signature")) return false;
  slip_fixture_frame_add_as(&frame, world->context, signature, thread->device[add.x], thread->device[add.y], thread->device[add.z],
                            INTERLEAVE_ELEMENTS);
  slip_launch_record_t record = {
      .struct_size = (uint32_t)sizeof(record), .id = id, .context = world->context, .frame = &frame, .stream = stream};
  if (interleave_pick(thread, 2)) {
    record.release = interleave_released;
    record.user = world;
    atomic_fetch_add(&world->owners, 1);
  }
  bool accepted = interleave_accepted(thread, slip_launch(&record, with_ticket ? &ticket : NULL), "launch");
  if (ticket) {
    slip_ticket_release(thread->ticket);
    thread->ticket = ticket;
  }
  slip_frame_deinitialize(&frame);
  slip_signature_release(signature);
  return accepted;
}

static void interleave_step_launch(interleave_thread_t *thread) {
  interleave_add_t add = interleave_pick_add(thread);
  interleave_stream_t *stream = interleave_borrow(thread);
  interleave_after_last(thread, stream->handle);
  if (interleave_launch(thread, stream->handle, add, interleave_pick(thread, 3) == 0)) {
    interleave_apply(thread, add);
    ++thread->launched;
  }
  interleave_mark(thread, stream->handle);
  interleave_give_back(stream);
}

// What is illegal in a capture is refused, and the capture goes on.
static void interleave_try_illegal(interleave_thread_t *thread) {
  slip_context_t *context = thread->world->context, *other = NULL;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  int32_t id = -1;
  slip_status_t status = slip_ok_status();
  options.platform = "sim";
  switch (interleave_pick(thread, 5)) {
    case 0:
      status = slip_context_prepare(context, slip_fixture_bytes(thread->world->image), &id);
      break;
    case 1:
      status = slip_context_release(context, thread->world->shared_id);
      break;
    case 2:
      status = slip_context_drain(context);
      break;
    case 3:
      status = slip_context_close(context);
      break;
    default:
      status = slip_context_open(&options, &other);
      break;
  }
  // While another thread's close runs, that may be the answer.
  if (slip_status_code(status) == SLIP_CODE_CAPTURE_UNSUPPORTED) {
    slip_status_free(status);
  } else if (slip_status_is_ok(status)) {
    // Another thread's close went through, and closing a closed context is nothing.
    if (slip_context_state(context) == SLIP_CONTEXT_CLOSED && !other) return;
    slip_test_fail(__FILE__, __LINE__, "a call that is illegal in a capture succeeded");
  } else {
    SLIP_CHECK_CODE(status, SLIP_CODE_INVALID_STATE);
  }
}

static void interleave_step_capture(interleave_thread_t *thread) {
  slip_platform_t *platform = thread->world->platform;
  interleave_graph_t *graph = &thread->graphs[interleave_pick(thread, INTERLEAVE_GRAPHS)];
  if (graph->exec) {
    SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph->exec));
    graph->exec = NULL;
  }
  graph->count = 0;
  interleave_stream_t *stream = interleave_borrow(thread);
  SLIP_CHECK_OK(slip_stream_capture_begin(platform, stream->handle, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  uint32_t nodes = 1 + interleave_pick(thread, INTERLEAVE_NODES);
  for (uint32_t i = 0; i < nodes; ++i) {
    interleave_add_t add = interleave_pick_add(thread);
    if (interleave_launch(thread, stream->handle, add, false)) graph->adds[graph->count++] = add;
    if (interleave_pick(thread, 4) == 0) interleave_try_illegal(thread);
  }
  SLIP_CHECK_OK(slip_stream_capture_end(platform, stream->handle, &graph->exec));
  interleave_give_back(stream);
  ++thread->captures;
}

static void interleave_step_replay(interleave_thread_t *thread) {
  interleave_graph_t *graph = &thread->graphs[interleave_pick(thread, INTERLEAVE_GRAPHS)];
  if (!graph->exec) return;
  interleave_stream_t *stream = interleave_borrow(thread);
  interleave_after_last(thread, stream->handle);
  for (uint32_t times = 1 + interleave_pick(thread, 3); times > 0; --times) {
    SLIP_CHECK_OK(slip_graph_exec_launch(thread->world->platform, graph->exec, stream->handle));
    for (uint32_t i = 0; i < graph->count; ++i) interleave_apply(thread, graph->adds[i]);
    ++thread->replays;
  }
  interleave_mark(thread, stream->handle);
  interleave_give_back(stream);
}

static void interleave_step_callable(interleave_thread_t *thread) {
  slip_context_t *context = thread->world->context;
  if (thread->id < 0) {
    slip_status_t status = slip_context_prepare(context, slip_fixture_bytes(thread->world->image), &thread->id);
    if (!interleave_accepted(thread, status, "prepare")) SLIP_CHECK_EQ(thread->id, -1);
  } else if (interleave_accepted(thread, slip_context_release(context, thread->id), "release")) {
    thread->id = -1;
  }
}

static void interleave_step_wait(interleave_thread_t *thread) {
  if (thread->ticket && interleave_pick(thread, 2)) {
    SLIP_CHECK_OK(slip_ticket_wait(thread->ticket, -1));
    SLIP_CHECK_OK(slip_ticket_query(thread->ticket));
  } else {
    (void)interleave_accepted(thread, slip_context_drain(thread->world->context), "drain");
  }
}

void interleave_thread_run(void *user) {
  interleave_thread_t *thread = user;
  for (int32_t step = 0; step < INTERLEAVE_STEPS; ++step) {
    if (step == thread->close_at) {
      (void)interleave_accepted(thread, slip_context_close(thread->world->context), "close");
      continue;
    }
    uint32_t choice = interleave_pick(thread, 16);
    if (choice < 6) {
      interleave_step_launch(thread);
    } else if (choice < 9) {
      interleave_step_capture(thread);
    } else if (choice < 13) {
      interleave_step_replay(thread);
    } else if (choice < 15) {
      interleave_step_callable(thread);
    } else {
      interleave_step_wait(thread);
    }
  }
}
