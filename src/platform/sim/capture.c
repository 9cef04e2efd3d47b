// SPDX-License-Identifier: Apache-2.0
// Captures. The origin owns the graph in the making and one flat set of members: the streams whose |capture| points to it. Begin, fork,
// join, break and end are here and nowhere else.
//
// A capture is ACTIVE, or BROKEN until it is ended. Where the answer says "breaks", the cuda flavour breaks the capture and the ascend
// flavour leaves it as it was; "breaks!" is both. An OVER event was last recorded in a capture that has ended since.
//
//   call                     stream        event              answer
//   begin                    none          -                  the stream becomes the origin
//                            member        -                  ALREADY_CAPTURING
//   work, record, retain     ACTIVE        -                  a node; the event takes the stream's state; the capture keeps it
//                            BROKEN        -                  CAPTURE_INVALIDATED
//   retain                   none          -                  NOT_CAPTURING
//   wait                     none          never recorded     no dependency
//                            none          outside captures   an operation
//                            none          ACTIVE             the stream becomes a member (fork)
//                            none          BROKEN             INVALID_VALUE
//                            none          OVER               CAPTURED_EVENT
//                            ACTIVE        never recorded     no dependency
//                            ACTIVE        same capture       a further dependency (join)
//                            ACTIVE        outside, OVER      CAPTURE_ISOLATION, breaks
//                            ACTIVE        another capture    CAPTURE_MERGE, breaks! both
//                            BROKEN        any                CAPTURE_INVALIDATED
//   synchronize, query,      ACTIVE        -                  ALREADY_CAPTURING, breaks
//   destroy, graph_launch    BROKEN        -                  CAPTURE_INVALIDATED
//   event query, synchronize -             ACTIVE             CAPTURED_EVENT, breaks
//                            -             BROKEN, OVER       CAPTURED_EVENT
//   unsafe calls             a capture of global mode, or of thread-local mode begun by this thread, ACTIVE or BROKEN:
//                                                             CAPTURE_UNSUPPORTED, breaks
//   end, in this order       none          -                  NOT_CAPTURING
//                            not origin    -                  CAPTURE_UNMATCHED; the capture stays
//                            other thread  -                  CAPTURE_WRONG_THREAD unless relaxed; cuda: the capture stays, ascend: over
//                            BROKEN        -                  CAPTURE_INVALIDATED; over
//                            ACTIVE        -                  CAPTURE_UNJOINED if some member's state does not come before the origin's;
//                                                             over
//                            ACTIVE        -                  the graph; over
#include "base/allocator.h"
#include "os/fork.h"
#include "platform/sim/board.h"

struct slip__sim_capture_t {
  slip__sim_capture_t *next;
  uint64_t id;
  slip__sim_stream_t *origin;
  uint32_t mode;  // slip_capture_mode_e
  uint32_t epoch;
  uint64_t thread;        // that began it
  const char *broken_by;  // the call that broke it; NULL: active
  slip__sim_node_t *nodes;
  uint32_t count;
  uint32_t capacity;
  slip__sim_retain_t *retains;
};

// Guarded by the board.
static slip__sim_capture_t *slip__sim_captures;
static uint64_t slip__sim_capture_last_id;

// Of the calling thread; unlike pthread_self() never used again.
static uint64_t slip__sim_thread_id(void) {
  static _Atomic uint64_t last;
  static _Thread_local uint64_t mine;
  if (mine == 0) mine = 1 + atomic_fetch_add_explicit(&last, 1, memory_order_relaxed);
  return mine;
}

// --- what there is

// NULL: ended, or the parent's of a fork.
static slip__sim_capture_t *slip__sim_capture_find(uint64_t id) {
  for (slip__sim_capture_t *capture = slip__sim_captures; capture; capture = capture->next) {
    if (capture->id == id && capture->epoch == slip__fork_epoch()) return capture;
  }
  return NULL;
}

static bool slip__sim_capture_concerns_caller(const slip__sim_capture_t *capture) {
  if (capture->epoch != slip__fork_epoch()) return false;
  if (capture->mode == SLIP_CAPTURE_MODE_GLOBAL) return true;
  return capture->mode == SLIP_CAPTURE_MODE_THREAD_LOCAL && capture->thread == slip__sim_thread_id();
}

uint32_t slip__sim_capture_alive(void) {
  uint32_t alive = 0;
  for (const slip__sim_capture_t *capture = slip__sim_captures; capture; capture = capture->next) {
    alive += capture->epoch == slip__fork_epoch();
  }
  return alive;
}

static void slip__sim_capture_describe(const slip__sim_capture_t *capture, slip_capture_info_t *out) {
  out->state = capture->broken_by ? SLIP_CAPTURE_INVALIDATED : SLIP_CAPTURE_ACTIVE;
  out->id = capture->id;
}

slip_status_t slip__sim_stream_capture_info(slip_stream_t handle, slip_capture_info_t *out) {
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("stream_capture_info"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_stream_resolve(handle, &stream);
  *out = (slip_capture_info_t){.state = SLIP_CAPTURE_NONE};
  if (stream && stream->capture) slip__sim_capture_describe(stream->capture, out);
  slip__sim_board_unlock();
  return status;
}

// An active capture before a broken one.
slip_status_t slip__sim_thread_capture_info(slip_capture_info_t *out) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("thread_capture_info"));
  *out = (slip_capture_info_t){.state = SLIP_CAPTURE_NONE};
  slip__sim_board_lock();
  for (const slip__sim_capture_t *capture = slip__sim_captures; capture; capture = capture->next) {
    if (slip__sim_capture_concerns_caller(capture) && out->state != SLIP_CAPTURE_ACTIVE) slip__sim_capture_describe(capture, out);
  }
  slip__sim_board_unlock();
  return slip_ok_status();
}

// --- breaking

static void slip__sim_capture_break(slip__sim_capture_t *capture, const char *call) {
  if (!capture->broken_by) capture->broken_by = call;
}

void slip__sim_capture_break_by_flavour(slip__sim_capture_t *capture, const char *call) {
  if (!slip__sim_is_ascend()) slip__sim_capture_break(capture, call);
}

void slip__sim_capture_offend(uint64_t id, const char *call) {
  slip__sim_capture_t *capture = slip__sim_capture_find(id);
  if (capture) slip__sim_capture_break_by_flavour(capture, call);
}

slip_status_t slip__sim_capture_check(const slip__sim_stream_t *stream) {
  const slip__sim_capture_t *capture = stream->capture;
  if (!capture->broken_by) return slip_ok_status();
  return slip__sim_error(SLIP__SIM_CAPTURE_INVALIDATED, "capture %llu was broken by %s; end it, which gives no graph, and capture anew",
                         (unsigned long long)capture->id, capture->broken_by);
}

slip_status_t slip__sim_capture_forbid(slip__sim_stream_t *stream, const char *call) {
  if (!stream->capture) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check(stream));
  slip__sim_capture_break_by_flavour(stream->capture, call);
  return slip__sim_error(SLIP__SIM_ALREADY_CAPTURING, "%s: the stream takes part in capture %llu; end it first", call,
                         (unsigned long long)stream->capture->id);
}

slip_status_t slip__sim_capture_check_unsafe(const char *call) {
  uint64_t id = 0;
  for (slip__sim_capture_t *capture = slip__sim_captures; capture; capture = capture->next) {
    if (!slip__sim_capture_concerns_caller(capture)) continue;
    slip__sim_capture_break_by_flavour(capture, call);
    id = capture->id;
  }
  if (id == 0) return slip_ok_status();
  return slip__sim_error(
      SLIP__SIM_CAPTURE_UNSUPPORTED,
      "%s is not allowed on this thread while capture %llu lasts; call it before the capture, or capture in another mode", call,
      (unsigned long long)id);
}

slip_status_t slip__sim_check_unsafe(const char *call) {
  slip__sim_board_lock();
  slip_status_t status = slip__sim_capture_check_unsafe(call);
  slip__sim_board_unlock();
  return status;
}

// --- nodes

static slip_status_t slip__sim_capture_grow(slip__sim_capture_t *capture) {
  if (capture->count == SLIP__SIM_MAX_NODES) {
    return slip__sim_error(SLIP__SIM_OUT_OF_RESOURCES, "capture %llu has %u nodes, which is the most", (unsigned long long)capture->id,
                           capture->count);
  }
  uint32_t capacity = capture->capacity ? 2 * capture->capacity : 16;
  void *nodes = capture->nodes;
  SLIP_RETURN_IF_ERROR(
      slip__realloc(slip_allocator_system(), capture->capacity * sizeof(slip__sim_node_t), capacity * sizeof(slip__sim_node_t), &nodes));
  capture->nodes = nodes;
  capture->capacity = capacity;
  return slip_ok_status();
}

// A node after |first| and |second|, either of which may be SLIP__SIM_NO_NODE.
static slip_status_t slip__sim_capture_node(slip__sim_capture_t *capture, const slip__sim_work_t *work, uint32_t first, uint32_t second,
                                            uint32_t *out) {
  if (capture->count == capture->capacity) SLIP_RETURN_IF_ERROR(slip__sim_capture_grow(capture));
  capture->nodes[capture->count] = (slip__sim_node_t){.work = *work, .before = {first, second}};
  *out = capture->count++;
  return slip_ok_status();
}

slip_status_t slip__sim_capture_add(slip__sim_stream_t *stream, const slip__sim_work_t *work) {
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check(stream));
  return slip__sim_capture_node(stream->capture, work, stream->last_node, SLIP__SIM_NO_NODE, &stream->last_node);
}

slip_status_t slip__sim_capture_record(const slip__sim_stream_t *stream, slip__sim_event_t *event) {
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check(stream));
  event->captured = true;
  event->mark = (slip__sim_mark_t){0, 0};
  event->capture_id = stream->capture->id;
  event->node = stream->last_node;
  return slip_ok_status();
}

// --- waits

// The stream does not capture; the event was recorded in a capture.
static slip_status_t slip__sim_capture_fork(slip__sim_stream_t *stream, const slip__sim_event_t *event) {
  slip__sim_work_t nothing = {.kind = SLIP__SIM_WORK_NONE, .device = stream->device};
  slip__sim_capture_t *capture = slip__sim_capture_find(event->capture_id);
  unsigned long long id = (unsigned long long)event->capture_id;
  if (!capture) {
    return slip__sim_error(SLIP__SIM_CAPTURED_EVENT,
                           "stream_wait_event: the event was last recorded in capture %llu, which is over; record it anew", id);
  }
  if (capture->broken_by) {
    return slip__sim_error(SLIP__SIM_INVALID_VALUE, "stream_wait_event: the event was recorded in capture %llu, which %s broke; end it", id,
                           capture->broken_by);
  }
  SLIP_RETURN_IF_ERROR(slip__sim_capture_node(capture, &nothing, event->node, SLIP__SIM_NO_NODE, &stream->last_node));
  stream->capture = capture;
  return slip_ok_status();
}

// The stream captures, the event was recorded elsewhere.
static slip_status_t slip__sim_capture_wait_elsewhere(slip__sim_capture_t *capture, const slip__sim_event_t *event) {
  slip__sim_capture_t *other = event->captured ? slip__sim_capture_find(event->capture_id) : NULL;
  if (other) {
    slip__sim_capture_break(capture, "stream_wait_event");
    slip__sim_capture_break(other, "stream_wait_event");
    return slip__sim_error(SLIP__SIM_CAPTURE_MERGE, "stream_wait_event would make captures %llu and %llu one; both are invalid now",
                           (unsigned long long)capture->id, (unsigned long long)other->id);
  }
  slip__sim_capture_break_by_flavour(capture, "stream_wait_event");
  return slip__sim_error(SLIP__SIM_CAPTURE_ISOLATION,
                         "stream_wait_event: the event was recorded outside capture %llu; record it on a stream of the capture first",
                         (unsigned long long)capture->id);
}

slip_status_t slip__sim_capture_wait(slip__sim_stream_t *stream, const slip__sim_event_t *event) {
  if (!stream->capture) return slip__sim_capture_fork(stream, event);
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check(stream));
  if (!event->captured && event->mark.position == 0) return slip_ok_status();
  if (!event->captured || event->capture_id != stream->capture->id) return slip__sim_capture_wait_elsewhere(stream->capture, event);
  slip__sim_work_t nothing = {.kind = SLIP__SIM_WORK_NONE, .device = stream->device};
  return slip__sim_capture_node(stream->capture, &nothing, stream->last_node, event->node, &stream->last_node);
}

// --- begin and end

static slip_status_t slip__sim_capture_begin_locked(slip_stream_t handle, uint32_t mode) {
  slip__sim_stream_t *stream = NULL;
  void *memory = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_stream_resolve_current(handle, "capture_begin", &stream));
  if (mode > SLIP_CAPTURE_MODE_RELAXED) return slip__sim_error(SLIP__SIM_INVALID_VALUE, "capture mode %u is none of 0, 1, 2", mode);
  if (stream->capture) {
    return slip__sim_error(SLIP__SIM_ALREADY_CAPTURING, "capture_begin: the stream takes part in capture %llu; end it first",
                           (unsigned long long)stream->capture->id);
  }
  SLIP_RETURN_IF_ERROR(slip__alloc(slip_allocator_system(), sizeof(slip__sim_capture_t), &memory));
  slip__sim_capture_t *capture = memory;
  *capture = (slip__sim_capture_t){.next = slip__sim_captures,
                                   .id = slip__sim_capture_last_id + 1,
                                   .origin = stream,
                                   .mode = mode,
                                   .epoch = slip__fork_epoch(),
                                   .thread = slip__sim_thread_id()};
  slip__sim_work_t nothing = {.kind = SLIP__SIM_WORK_NONE, .device = stream->device};
  slip_status_t status = slip__sim_capture_node(capture, &nothing, SLIP__SIM_NO_NODE, SLIP__SIM_NO_NODE, &stream->last_node);
  if (!slip_status_is_ok(status)) {
    slip__free(slip_allocator_system(), capture, sizeof(*capture));
    return status;
  }
  ++slip__sim_capture_last_id;
  slip__sim_captures = capture;
  stream->capture = capture;
  return slip_ok_status();
}

slip_status_t slip__sim_capture_begin(slip_stream_t stream, uint32_t mode) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("capture_begin"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_capture_begin_locked(stream, mode);
  slip__sim_board_unlock();
  return status;
}

// Takes |capture| off the board: no stream is in it any more.
static void slip__sim_capture_unlink(slip__sim_capture_t *capture) {
  bool end = false;
  for (uint32_t i = 0; !end; ++i) {
    slip__sim_stream_t *stream = slip__sim_stream_at(i, &end);
    if (stream && stream->capture == capture) stream->capture = NULL;
  }
  slip__sim_capture_t **link = &slip__sim_captures;
  while (*link != capture) link = &(*link)->next;
  *link = capture->next;
}

// Frees an unlinked capture but for its retains, which go in front of |*inout_retains|.
static void slip__sim_capture_free(slip__sim_capture_t *capture, slip__sim_retain_t **inout_retains) {
  slip__sim_retain_t **tail = &capture->retains;
  while (*tail) tail = &(*tail)->next;
  *tail = *inout_retains;
  *inout_retains = capture->retains;
  slip__sim_nodes_free(capture->nodes, capture->count, capture->capacity);
  slip__free(slip_allocator_system(), capture, sizeof(*capture));
}

// Dependencies have smaller numbers, so one pass from the end finds all that comes before |last|.
static void slip__sim_capture_mark_before(slip__sim_capture_t *capture, uint32_t last) {
  for (uint32_t i = 0; i < capture->count; ++i) capture->nodes[i].pending = i == last;
  for (uint32_t i = capture->count; i-- > 0;) {
    for (int k = 0; capture->nodes[i].pending && k < 2; ++k) {
      uint32_t before = capture->nodes[i].before[k];
      if (before != SLIP__SIM_NO_NODE) capture->nodes[before].pending = 1;
    }
  }
}

static slip_status_t slip__sim_capture_check_joined(slip__sim_capture_t *capture) {
  bool end = false;
  slip__sim_capture_mark_before(capture, capture->origin->last_node);
  for (uint32_t i = 0; !end; ++i) {
    const slip__sim_stream_t *stream = slip__sim_stream_at(i, &end);
    if (!stream || stream->capture != capture || capture->nodes[stream->last_node].pending) continue;
    return slip__sim_error(SLIP__SIM_CAPTURE_UNJOINED,
                           "capture_end: the origin of capture %llu has not waited for the last state of stream %p; record an event there "
                           "after its last work and wait for it on the origin",
                           (unsigned long long)capture->id, slip__sim_handle(SLIP__SIM_STREAM_TAG, stream->index, stream->generation));
  }
  return slip_ok_status();
}

// May the caller end |capture|, and is there a graph in it? |*out_over|: the capture is over whatever comes.
static slip_status_t slip__sim_capture_check_end(slip__sim_stream_t *stream, bool *out_over) {
  slip__sim_capture_t *capture = stream->capture;
  *out_over = false;
  if (!capture) return slip__sim_error(SLIP__SIM_NOT_CAPTURING, "capture_end: begin a capture on the stream first");
  unsigned long long id = (unsigned long long)capture->id;
  if (capture->origin != stream) {
    return slip__sim_error(SLIP__SIM_CAPTURE_UNMATCHED, "capture_end: the stream was forked into capture %llu; end it on its origin", id);
  }
  if (capture->mode != SLIP_CAPTURE_MODE_RELAXED && capture->thread != slip__sim_thread_id()) {
    *out_over = slip__sim_is_ascend();
    return slip__sim_error(SLIP__SIM_CAPTURE_WRONG_THREAD, "capture_end: another thread began capture %llu%s", id,
                           *out_over ? ", which is over now" : "; end it there");
  }
  *out_over = true;
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check(stream));
  return slip__sim_capture_check_joined(capture);
}

static slip_status_t slip__sim_capture_end_locked(slip_stream_t handle, slip_graph_exec_t *out, slip__sim_retain_t **out_retains) {
  slip__sim_stream_t *stream = NULL;
  bool over = false;
  SLIP_RETURN_IF_ERROR(slip__sim_stream_resolve_current(handle, "capture_end", &stream));
  slip__sim_capture_t *capture = stream->capture;
  slip_status_t status = slip__sim_capture_check_end(stream, &over);
  if (!over) return status;
  slip__sim_capture_unlink(capture);
  if (slip_status_is_ok(status)) {
    status = slip__sim_exec_make(stream->device, capture->nodes, capture->count, capture->capacity, capture->retains, out);
    if (slip_status_is_ok(status)) {
      capture->nodes = NULL;
      capture->count = capture->capacity = 0;
      capture->retains = NULL;
    }
  }
  slip__sim_capture_free(capture, out_retains);
  return status;
}

slip_status_t slip__sim_capture_end(slip_stream_t stream, slip_graph_exec_t *out) {
  slip__sim_retain_t *retains = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("capture_end"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_capture_end_locked(stream, out, &retains);
  slip__sim_board_unlock();
  slip__sim_retains_run(retains);
  return status;
}

static slip_status_t slip__sim_capture_retain_locked(slip_stream_t handle, slip__sim_retain_t *retain) {
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_stream_resolve_current(handle, "capture_retain", &stream));
  if (!stream->capture) return slip__sim_error(SLIP__SIM_NOT_CAPTURING, "capture_retain: begin a capture on the stream first");
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check(stream));
  retain->next = stream->capture->retains;
  stream->capture->retains = retain;
  return slip_ok_status();
}

slip_status_t slip__sim_capture_retain(slip_stream_t stream, void (*release)(void *user), void *user) {
  void *memory = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("capture_retain"));
  SLIP_RETURN_IF_ERROR(slip__alloc(slip_allocator_system(), sizeof(slip__sim_retain_t), &memory));
  slip__sim_retain_t *retain = memory;
  *retain = (slip__sim_retain_t){.release = release, .user = user};
  slip__sim_board_lock();
  slip_status_t status = slip__sim_capture_retain_locked(stream, retain);
  slip__sim_board_unlock();
  if (!slip_status_is_ok(status)) slip__free(slip_allocator_system(), retain, sizeof(*retain));
  return status;
}

void slip__sim_capture_drop(int32_t device, slip__sim_retain_t **inout_retains) {
  bool end = false;
  for (uint32_t i = 0; !end; ++i) {
    slip__sim_stream_t *stream = slip__sim_stream_at(i, &end);
    if (!stream || !stream->capture || (device >= 0 && stream->device != device)) continue;
    slip__sim_capture_t *capture = stream->capture;
    if (stream != capture->origin) {
      slip__sim_capture_break(capture, "a reset of a member's device");
      stream->capture = NULL;
      continue;
    }
    slip__sim_capture_unlink(capture);
    slip__sim_capture_free(capture, inout_retains);
  }
}
