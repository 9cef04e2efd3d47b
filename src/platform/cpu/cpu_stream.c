// SPDX-License-Identifier: Apache-2.0
// Streams: see the table of words in cpu.h.
#include <assert.h>
#include <string.h>

#include "base/allocator.h"
#include "os/fork.h"
#include "os/thread.h"
#include "platform/cpu/cpu.h"

#define SLIP__CPU_STREAM_TAG 0x5du

// Spins before sleeping: about 5 us, the cost of a futex sleep and wake. More would take a core from the work that is waited for.
#define SLIP__CPU_SPINS 100u

// A mark is slot << SLIP__CPU_POSITION_BITS | position: at 10^8 records a second 52 bits last a year and more.
#define SLIP__CPU_POSITION_BITS 52u
#define SLIP__CPU_POSITION_MASK ((UINT64_C(1) << SLIP__CPU_POSITION_BITS) - 1)

// In |tail|: the stream takes no more records. Above every position, so an enqueuer meets it where it finds the ring full.
#define SLIP__CPU_CLOSED (UINT64_C(1) << 63)

typedef enum slip__cpu_record_e {
  SLIP__CPU_RECORD_HOST = 1,
  SLIP__CPU_RECORD_WAIT = 2,
  SLIP__CPU_RECORD_COPY = 3,
  SLIP__CPU_RECORD_STOP = 4,
} slip__cpu_record_e;

typedef struct slip__cpu_record_t {
  uint64_t kind;  // slip__cpu_record_e
  union {
    struct {
      void (*function)(void *user);
      void *user;
    } host;
    slip__cpu_mark_t mark;
    struct {
      void *target;
      const void *source;
      uint64_t size_bytes;
    } copy;
  };
} slip__cpu_record_t;

// One cache line each, so that enqueuer and stream thread share only the cell they hand over.
typedef struct slip__cpu_cell_t {
  _Alignas(64) _Atomic uint64_t sequence;
  slip__cpu_record_t record;
} slip__cpu_cell_t;

typedef struct slip__cpu_stream_t {
  _Alignas(64) _Atomic uint64_t tail;
  _Alignas(64) _Atomic uint64_t done;
  _Atomic uint32_t asleep;
  _Atomic uint32_t waiters;
  _Atomic uint32_t progress;                 // counts the wakes of waiters
  _Alignas(64) _Atomic uint32_t generation;  // of the handle that is valid now
  uint32_t index;
  _Atomic uint32_t epoch;  // slip__fork_epoch() of the process that has the thread
  bool used;               // guarded by slip__cpu_stream_lock
  slip__thread_t thread;
  slip__cpu_cell_t cells[SLIP__CPU_RING];
} slip__cpu_stream_t;

// Slots are made when first needed and stay until the process ends: see "Events" in cpu.h.
static _Atomic(slip__cpu_stream_t *) slip__cpu_streams[SLIP__CPU_MAX_STREAMS];
static pthread_mutex_t slip__cpu_stream_lock = PTHREAD_MUTEX_INITIALIZER;  // creation and destruction only
static _Thread_local slip__cpu_stream_t *slip__cpu_stream_self;            // set in stream threads

static void slip__cpu_stream_fork_reset(void) {
  slip__cpu_stream_self = NULL;
}

void slip__cpu_stream_watch_fork(void) {
  slip__fork_watch(slip__cpu_stream_fork_reset);
  slip__fork_guard(&slip__cpu_stream_lock);
}

// --- handles

static slip_status_t slip__cpu_stream_refuse(slip_stream_t stream) {
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                     "%p is no stream of the cpu platform, or was destroyed; use slip_stream_create or SLIP_STREAM_INLINE", stream);
}

static slip_status_t slip__cpu_stream_refuse_forked(void) {
  return SLIP_STATUS(SLIP_CODE_FORKED,
                     "the stream was made before fork() and its thread is in the parent; make streams in the child, or use spawn");
}

static bool slip__cpu_stream_is(const slip__cpu_stream_t *stream, slip_stream_t handle) {
  return atomic_load_explicit(&stream->generation, memory_order_acquire) == slip__cpu_handle_generation(handle);
}

// The stream of a handle. |*out| is NULL for the inline stream.
static slip_status_t slip__cpu_stream_resolve(slip_stream_t handle, slip__cpu_stream_t **out) {
  *out = NULL;
  if (handle == SLIP_STREAM_INLINE) return slip_ok_status();
  uint32_t index = slip__cpu_handle_index(handle);
  if (slip__cpu_handle_tag(handle) != SLIP__CPU_STREAM_TAG || index >= SLIP__CPU_MAX_STREAMS) return slip__cpu_stream_refuse(handle);
  slip__cpu_stream_t *stream = atomic_load_explicit(&slip__cpu_streams[index], memory_order_acquire);
  if (!stream || !slip__cpu_stream_is(stream, handle)) return slip__cpu_stream_refuse(handle);
  if (atomic_load_explicit(&stream->epoch, memory_order_relaxed) != slip__fork_epoch()) return slip__cpu_stream_refuse_forked();
  *out = stream;
  return slip_ok_status();
}

// --- waiting for progress

// Blocks until |stream| has run |position| records.
static void slip__cpu_stream_wait_done(slip__cpu_stream_t *stream, uint64_t position) {
  for (uint32_t i = 0; i < SLIP__CPU_SPINS; ++i) {
    if (atomic_load_explicit(&stream->done, memory_order_acquire) >= position) return;
    slip__cpu_relax();
  }
  atomic_fetch_add(&stream->waiters, 1);
  for (;;) {
    uint32_t progress = atomic_load(&stream->progress);
    if (atomic_load(&stream->done) >= position) break;
    (void)slip__futex_wait(&stream->progress, progress, -1);
  }
  atomic_fetch_sub(&stream->waiters, 1);
}

static void slip__cpu_stream_advance(slip__cpu_stream_t *stream, uint64_t done) {
  atomic_store(&stream->done, done);
  if (atomic_load(&stream->waiters) == 0) return;
  atomic_fetch_add(&stream->progress, 1);
  slip__futex_wake(&stream->progress, INT32_MAX);
}

// --- the stream's thread

static slip__cpu_stream_t *slip__cpu_mark_stream(slip__cpu_mark_t mark) {
  return atomic_load_explicit(&slip__cpu_streams[mark >> SLIP__CPU_POSITION_BITS], memory_order_acquire);
}

// Waits until the next cell is filled.
static void slip__cpu_stream_await(slip__cpu_stream_t *stream, const slip__cpu_cell_t *cell, uint64_t position) {
  for (;;) {
    for (uint32_t i = 0; i < SLIP__CPU_SPINS; ++i) {
      if (atomic_load_explicit(&cell->sequence, memory_order_acquire) == position + 1) return;
      slip__cpu_relax();
    }
    atomic_store(&stream->asleep, 1);
    if (atomic_load(&cell->sequence) != position + 1) (void)slip__futex_wait(&stream->asleep, 1, -1);
    atomic_store(&stream->asleep, 0);
  }
}

static void slip__cpu_stream_run(void *user) {
  slip__cpu_stream_t *stream = user;
  slip__cpu_stream_self = stream;
  uint64_t position = atomic_load(&stream->done);
  for (bool stop = false; !stop; ++position) {
    slip__cpu_cell_t *cell = &stream->cells[position % SLIP__CPU_RING];
    slip__cpu_stream_await(stream, cell, position);
    slip__cpu_record_t record = cell->record;
    // Release: pairs with the acquire of slip__cpu_stream_claim; the record has been read.
    atomic_store_explicit(&cell->sequence, position + SLIP__CPU_RING, memory_order_release);
    switch (record.kind) {
      case SLIP__CPU_RECORD_HOST:
        record.host.function(record.host.user);
        break;
      case SLIP__CPU_RECORD_WAIT:
        slip__cpu_stream_wait_done(slip__cpu_mark_stream(record.mark), record.mark & SLIP__CPU_POSITION_MASK);
        break;
      case SLIP__CPU_RECORD_COPY:
        memmove(record.copy.target, record.copy.source, record.copy.size_bytes);
        break;
      default:
        stop = true;
        break;
    }
    slip__cpu_stream_advance(stream, position + 1);
  }
}

// --- enqueueing

// Claims the next position, and with |closing| SLIP__CPU_CLOSED the last one: whoever comes later is refused, however long ago it looked up
// the handle. BUSY if the ring is full and the caller is the thread that would have to empty it.
//
// Since the handle was looked up its stream may have been destroyed and the slot have become another stream's. |tail| never falls and each
// destroy moves it, so the exchange succeeds only if nothing has happened since it was read; and the handle is compared after each reading,
// which acquires what create released: a tail of another stream comes with that one's generation.
static slip_status_t slip__cpu_stream_claim(slip__cpu_stream_t *stream, slip_stream_t handle, uint64_t closing, uint64_t *out_position) {
  uint64_t position = atomic_load_explicit(&stream->tail, memory_order_acquire);
  for (;;) {
    if (!slip__cpu_stream_is(stream, handle)) return slip__cpu_stream_refuse(handle);
    slip__cpu_cell_t *cell = &stream->cells[position % SLIP__CPU_RING];
    uint64_t sequence = atomic_load_explicit(&cell->sequence, memory_order_acquire);
    if (sequence == position) {
      if (atomic_compare_exchange_weak_explicit(&stream->tail, &position, (position + 1) | closing, memory_order_acquire,
                                                memory_order_acquire)) {
        *out_position = position;
        return slip_ok_status();
      }
    } else if (position & SLIP__CPU_CLOSED) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the stream is being destroyed and takes no more work; destroy it after the last use");
    } else if (sequence < position) {
      if (stream == slip__cpu_stream_self) {
        return SLIP_STATUS(SLIP_CODE_BUSY, "the stream holds %u records, and its own callback would wait for room for ever",
                           SLIP__CPU_RING);
      }
      // Full: the record in this cell is position - RING; it has been read at the latest when it is done.
      slip__cpu_stream_wait_done(stream, position - SLIP__CPU_RING + 1);
      position = atomic_load_explicit(&stream->tail, memory_order_acquire);
    } else {
      position = atomic_load_explicit(&stream->tail, memory_order_acquire);
    }
  }
}

static slip_status_t slip__cpu_stream_push(slip__cpu_stream_t *stream, slip_stream_t handle, const slip__cpu_record_t *record) {
  uint64_t position = 0, closing = record->kind == SLIP__CPU_RECORD_STOP ? SLIP__CPU_CLOSED : 0;
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_claim(stream, handle, closing, &position));
  slip__cpu_cell_t *cell = &stream->cells[position % SLIP__CPU_RING];
  cell->record = *record;
  // Sequentially consistent, as is the look at |asleep|: see cpu.h.
  atomic_store(&cell->sequence, position + 1);
  if (atomic_load(&stream->asleep) && atomic_exchange(&stream->asleep, 0)) slip__futex_wake(&stream->asleep, 1);
  return slip_ok_status();
}

slip_status_t slip__cpu_stream_enqueue_host(slip_stream_t handle, void (*function)(void *user), void *user) {
  slip__cpu_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_resolve(handle, &stream));
  if (!stream) {
    function(user);
    return slip_ok_status();
  }
  slip__cpu_record_t record = {.kind = SLIP__CPU_RECORD_HOST, .host = {function, user}};
  return slip__cpu_stream_push(stream, handle, &record);
}

slip_status_t slip__cpu_memory_copy_async(slip_stream_t handle, void *target, const void *source, uint64_t size_bytes, uint32_t kind) {
  slip__cpu_stream_t *stream = NULL;
  (void)kind;
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_resolve(handle, &stream));
  if (!stream) {
    memmove(target, source, size_bytes);
    return slip_ok_status();
  }
  slip__cpu_record_t record = {.kind = SLIP__CPU_RECORD_COPY, .copy = {target, source, size_bytes}};
  return slip__cpu_stream_push(stream, handle, &record);
}

// --- marks

slip_status_t slip__cpu_stream_mark(slip_stream_t handle, slip__cpu_mark_t *out) {
  slip__cpu_stream_t *stream = NULL;
  *out = SLIP__CPU_NEVER;
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_resolve(handle, &stream));
  if (!stream) return slip_ok_status();  // inline work has always run
  uint64_t tail = atomic_load_explicit(&stream->tail, memory_order_acquire) & SLIP__CPU_POSITION_MASK;
  if (!slip__cpu_stream_is(stream, handle)) return slip__cpu_stream_refuse(handle);  // as in slip__cpu_stream_claim
  *out = (uint64_t)stream->index << SLIP__CPU_POSITION_BITS | tail;
  return slip_ok_status();
}

bool slip__cpu_mark_reached(slip__cpu_mark_t mark) {
  if (mark == SLIP__CPU_NEVER) return true;
  return atomic_load_explicit(&slip__cpu_mark_stream(mark)->done, memory_order_acquire) >= (mark & SLIP__CPU_POSITION_MASK);
}

slip_status_t slip__cpu_mark_wait(slip__cpu_mark_t mark) {
  if (slip__cpu_mark_reached(mark)) return slip_ok_status();
  slip__cpu_stream_t *stream = slip__cpu_mark_stream(mark);
  if (atomic_load_explicit(&stream->epoch, memory_order_relaxed) != slip__fork_epoch()) return slip__cpu_stream_refuse_forked();
  if (stream == slip__cpu_stream_self) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "a callback of the stream waits for the stream's own later work and would wait for ever");
  }
  slip__cpu_stream_wait_done(stream, mark & SLIP__CPU_POSITION_MASK);
  return slip_ok_status();
}

slip_status_t slip__cpu_stream_wait_mark(slip_stream_t handle, slip__cpu_mark_t mark) {
  slip__cpu_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_resolve(handle, &stream));
  if (!stream) return slip__cpu_mark_wait(mark);
  // A stream's own earlier work comes first anyway.
  if (slip__cpu_mark_reached(mark) || slip__cpu_mark_stream(mark) == stream) return slip_ok_status();
  if (atomic_load_explicit(&slip__cpu_mark_stream(mark)->epoch, memory_order_relaxed) != slip__fork_epoch())
    return slip__cpu_stream_refuse_forked();
  slip__cpu_record_t record = {.kind = SLIP__CPU_RECORD_WAIT, .mark = mark};
  return slip__cpu_stream_push(stream, handle, &record);
}

// --- synchronisation and questions

slip_status_t slip__cpu_stream_synchronize(slip_stream_t handle) {
  slip__cpu_mark_t mark = SLIP__CPU_NEVER;
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_mark(handle, &mark));
  return slip__cpu_mark_wait(mark);
}

slip_status_t slip__cpu_stream_query(slip_stream_t handle) {
  slip__cpu_mark_t mark = SLIP__CPU_NEVER;
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_mark(handle, &mark));
  return slip__cpu_mark_reached(mark) ? slip_ok_status() : slip_status_from_code(SLIP_CODE_NOT_READY);
}

slip_status_t slip__cpu_stream_device(slip_stream_t handle, int32_t *out_device) {
  slip__cpu_stream_t *stream = NULL;
  *out_device = 0;
  return slip__cpu_stream_resolve(handle, &stream);
}

slip_status_t slip__cpu_stream_capture_info(slip_stream_t handle, slip_capture_info_t *out) {
  slip__cpu_stream_t *stream = NULL;
  out->state = SLIP_CAPTURE_NONE;
  return slip__cpu_stream_resolve(handle, &stream);
}

// --- creation and destruction

static slip_status_t slip__cpu_stream_make_slot(uint32_t index, slip__cpu_stream_t **out) {
  void *memory = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc_aligned(slip_allocator_system(), sizeof(slip__cpu_stream_t), 64, &memory));
  slip__cpu_stream_t *stream = memory;
  stream->index = index;
  atomic_init(&stream->generation, 1);
  atomic_init(&stream->tail, SLIP__CPU_CLOSED);
  for (uint32_t i = 0; i < SLIP__CPU_RING; ++i) atomic_init(&stream->cells[i].sequence, i);
  // Release: pairs with the acquire of slip__cpu_stream_resolve.
  atomic_store_explicit(&slip__cpu_streams[index], stream, memory_order_release);
  *out = stream;
  return slip_ok_status();
}

// A slot for the caller alone. Locked.
static slip_status_t slip__cpu_stream_take_slot(slip__cpu_stream_t **out) {
  for (uint32_t i = 0; i < SLIP__CPU_MAX_STREAMS; ++i) {
    slip__cpu_stream_t *stream = atomic_load_explicit(&slip__cpu_streams[i], memory_order_relaxed);
    if (stream && stream->used) continue;
    if (!stream) SLIP_RETURN_IF_ERROR(slip__cpu_stream_make_slot(i, &stream));
    stream->used = true;
    *out = stream;
    return slip_ok_status();
  }
  return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "the process has %u cpu streams, which is the most; destroy some", SLIP__CPU_MAX_STREAMS);
}

static void slip__cpu_stream_give_slot(slip__cpu_stream_t *stream) {
  (void)pthread_mutex_lock(&slip__cpu_stream_lock);
  stream->used = false;
  (void)pthread_mutex_unlock(&slip__cpu_stream_lock);
}

slip_status_t slip__cpu_stream_create(int32_t device, slip_stream_t *out) {
  slip__cpu_stream_t *stream = NULL;
  (void)device;
  (void)pthread_mutex_lock(&slip__cpu_stream_lock);
  slip_status_t status = slip__cpu_stream_take_slot(&stream);
  (void)pthread_mutex_unlock(&slip__cpu_stream_lock);
  SLIP_RETURN_IF_ERROR(status);
  assert(atomic_load(&stream->tail) == (atomic_load(&stream->done) | SLIP__CPU_CLOSED));
  atomic_store_explicit(&stream->epoch, slip__fork_epoch(), memory_order_relaxed);
  status = slip__thread_start(&stream->thread, "slip-stream", slip__cpu_stream_run, stream);
  if (!slip_status_is_ok(status)) {
    slip__cpu_stream_give_slot(stream);
    return status;
  }
  // Release: pairs with the acquire of slip__cpu_stream_claim.
  atomic_fetch_and_explicit(&stream->tail, ~SLIP__CPU_CLOSED, memory_order_release);
  *out = slip__cpu_handle(SLIP__CPU_STREAM_TAG, stream->index, atomic_load_explicit(&stream->generation, memory_order_relaxed));
  return slip_ok_status();
}

slip_status_t slip__cpu_stream_destroy(slip_stream_t handle) {
  slip__cpu_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_resolve(handle, &stream));
  if (!stream) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "SLIP_STREAM_INLINE belongs to nobody and cannot be destroyed");
  if (stream == slip__cpu_stream_self) return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "a stream cannot be destroyed by its own callback");
  slip__cpu_record_t record = {.kind = SLIP__CPU_RECORD_STOP};
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_push(stream, handle, &record));
  slip__thread_join(&stream->thread);
  // Release: pairs with the acquire of slip__cpu_stream_resolve. From here on the handle is stale.
  atomic_fetch_add_explicit(&stream->generation, 1, memory_order_release);
  slip__cpu_stream_give_slot(stream);
  return slip_ok_status();
}
