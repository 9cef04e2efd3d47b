// SPDX-License-Identifier: Apache-2.0
// What the files of the cpu backend share.
//
// Streams. An asynchronous stream is one thread and a ring of SLIP__CPU_RING records. Any thread enqueues: it claims a place by moving
// |tail|, fills the cell and publishes it by the cell's sequence number; the stream's thread executes cells in order and moves |done|. A
// full ring makes the enqueuer wait. Nothing is allocated.
//
//   word            written by                        read by, pairing
//   tail            enqueuers (CAS)                   position of the next record; never falls, also when the slot is used for another;
//                                                     SLIP__CPU_CLOSED from the last record on. Who reads it (acquire, of what create
//                                                     released) then compares the handle's generation: slip__cpu_stream_claim()
//   generation      destroy (release)                 lookups (acquire): which handle is the slot's
//   stream cell.sequence   enqueuer: position + 1 (release)  stream thread (acquire): the record is there
//                   stream thread: position + RING    enqueuer (acquire): the cell is free for the next round
//   done            stream thread (seq_cst)           everybody: all records below it have run; acquire, so their effects are seen
//   asleep          stream thread 1, waker 0          (seq_cst) the thread sleeps on it; it looks at the next cell once more after setting
//   it, and the enqueuer looks waiters         those who sleep on |progress|     at it after publishing, so one of both sees the other. The
//   same for waiters and done.
//
// Events. The last record is one word: (slot, position). It has been reached when done of that slot has come to the position. A wait copies
// the word, which binds it to the record that was last at the call. Slots are never freed and positions never fall, so the word stays
// meaningful after the stream was destroyed (its work has run then).
//
// Handles are numbers made of tag, index and generation, not addresses: a foreign or stale one is told without touching memory.
//
// Fork: threads stay with the parent. A stream made before the fork answers FORKED in the child. The locks of the tables are
// held across a fork, so the child's tables are whole.
#ifndef SLIPSTREAM_SRC_PLATFORM_CPU_CPU_H_
#define SLIPSTREAM_SRC_PLATFORM_CPU_CPU_H_

#include <stdatomic.h>

#include "slipstream/platform/platform.h"

// Records that may wait in one stream. 1024 launches ahead is far beyond what hides an enqueue; a ring takes 64 KiB.
#define SLIP__CPU_RING        1024u
#define SLIP__CPU_MAX_STREAMS 4096u
#define SLIP__CPU_MAX_EVENTS  65536u

// A record: the work of a stream up to |position| of |slot|. SLIP__CPU_NEVER: nothing to wait for.
typedef uint64_t slip__cpu_mark_t;
#define SLIP__CPU_NEVER UINT64_MAX

// -- cpu_stream.c
// The mark of all that was enqueued on |stream| so far.
slip_status_t slip__cpu_stream_mark(slip_stream_t stream, slip__cpu_mark_t *out) SLIP_MUST_USE;
// True if the marked work has run.
bool slip__cpu_mark_reached(slip__cpu_mark_t mark);
// Blocks until then. INVALID_STATE from the thread that would have to do the work; FORKED.
slip_status_t slip__cpu_mark_wait(slip__cpu_mark_t mark) SLIP_MUST_USE;
// Makes later work of |stream| wait for the mark; on the inline stream the caller waits.
slip_status_t slip__cpu_stream_wait_mark(slip_stream_t stream, slip__cpu_mark_t mark) SLIP_MUST_USE;

slip_status_t slip__cpu_stream_create(int32_t device, slip_stream_t *out) SLIP_MUST_USE;
slip_status_t slip__cpu_stream_destroy(slip_stream_t stream) SLIP_MUST_USE;
slip_status_t slip__cpu_stream_synchronize(slip_stream_t stream) SLIP_MUST_USE;
slip_status_t slip__cpu_stream_query(slip_stream_t stream) SLIP_MUST_USE;
slip_status_t slip__cpu_stream_device(slip_stream_t stream, int32_t *out_device) SLIP_MUST_USE;
slip_status_t slip__cpu_stream_capture_info(slip_stream_t stream, slip_capture_info_t *out) SLIP_MUST_USE;
slip_status_t slip__cpu_stream_enqueue_host(slip_stream_t stream, void (*function)(void *user), void *user) SLIP_MUST_USE;
slip_status_t slip__cpu_memory_copy_async(slip_stream_t stream, void *target, const void *source, uint64_t size_bytes,
                                          uint32_t kind) SLIP_MUST_USE;
void slip__cpu_stream_watch_fork(void);

// -- cpu_event.c
slip_status_t slip__cpu_event_create(int32_t device, slip_event_t *out) SLIP_MUST_USE;
slip_status_t slip__cpu_event_destroy(slip_event_t event) SLIP_MUST_USE;
slip_status_t slip__cpu_event_record(slip_event_t event, slip_stream_t stream) SLIP_MUST_USE;
slip_status_t slip__cpu_event_query(slip_event_t event) SLIP_MUST_USE;
slip_status_t slip__cpu_event_synchronize(slip_event_t event) SLIP_MUST_USE;
slip_status_t slip__cpu_stream_wait_event(slip_stream_t stream, slip_event_t event) SLIP_MUST_USE;
void slip__cpu_event_watch_fork(void);

// -- cpu_memory.c
slip_status_t slip__cpu_memory_allocate(int32_t device, uint64_t size_bytes, void **out) SLIP_MUST_USE;
slip_status_t slip__cpu_memory_free(int32_t device, void *memory) SLIP_MUST_USE;
slip_status_t slip__cpu_memory_copy(int32_t device, void *target, const void *source, uint64_t size_bytes, uint32_t kind) SLIP_MUST_USE;
slip_status_t slip__cpu_memory_fill(int32_t device, void *target, uint8_t value, uint64_t size_bytes) SLIP_MUST_USE;
slip_status_t slip__cpu_pointer_info(const void *pointer, slip_pointer_info_t *out) SLIP_MUST_USE;
void slip__cpu_memory_watch_fork(void);

// -- handles: tag in the low 8 bits (odd: no aligned address looks like one), then index, then generation
static inline void *slip__cpu_handle(uint8_t tag, uint32_t index, uint32_t generation) {
  return (void *)(uintptr_t)(tag | (uint64_t)index << 8 | (uint64_t)generation << 32);
}
static inline uint8_t slip__cpu_handle_tag(const void *handle) {
  return (uint8_t)(uintptr_t)handle;
}
static inline uint32_t slip__cpu_handle_index(const void *handle) {
  return (uint32_t)((uintptr_t)handle >> 8) & 0xffffffu;
}
static inline uint32_t slip__cpu_handle_generation(const void *handle) {
  return (uint32_t)((uint64_t)(uintptr_t)handle >> 32);
}

#endif  // SLIPSTREAM_SRC_PLATFORM_CPU_CPU_H_
