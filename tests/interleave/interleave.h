// SPDX-License-Identifier: Apache-2.0
// One world per seed, and what its threads share.
#ifndef SLIP_INTERLEAVE_H_
#define SLIP_INTERLEAVE_H_

#include "device_fixture.h"
#include "os/thread.h"
#include "platform/dispatch.h"

enum {
  INTERLEAVE_THREADS = 4,
  INTERLEAVE_STREAMS = 3,
  INTERLEAVE_STEPS = 14,     // calls of one thread
  INTERLEAVE_BUFFERS = 4,    // of one thread
  INTERLEAVE_ELEMENTS = 24,  // of one buffer
  INTERLEAVE_NODES = 3,      // launches of one capture, at most
  INTERLEAVE_GRAPHS = 2,     // alive in one thread, at most
};

// A stream is lent to one thread at a time: what is enqueued on a stream that somebody else captures would be recorded by him.
typedef struct interleave_stream_t {
  pthread_mutex_t lock;
  slip_stream_t handle;
} interleave_stream_t;

typedef struct interleave_add_t {
  uint32_t x, y, z;
} interleave_add_t;

typedef struct interleave_graph_t {
  slip_graph_exec_t exec;
  uint32_t count;
  interleave_add_t adds[INTERLEAVE_NODES];
} interleave_graph_t;

typedef struct interleave_world_t interleave_world_t;

typedef struct interleave_thread_t {
  slip__thread_t thread;
  interleave_world_t *world;
  uint32_t index;
  uint64_t random;
  slip_event_t last;  // after all that this thread has enqueued
  int32_t id;         // a callable of its own; -1: released
  int32_t close_at;   // the step that closes the context; -1: none
  bool recorded;      // |last| was
  uint32_t launched, refused, captures, replays;
  float *device[INTERLEAVE_BUFFERS];
  float oracle[INTERLEAVE_BUFFERS][INTERLEAVE_ELEMENTS];
  slip_ticket_t *ticket;
  interleave_graph_t graphs[INTERLEAVE_GRAPHS];
} interleave_thread_t;

struct interleave_world_t {
  uint64_t seed;
  slip_platform_t *platform;
  slip_context_t *context;
  slip_bytes_t image;
  int32_t shared_id;
  _Atomic uint32_t owners;    // records with a release callback so far
  _Atomic uint32_t released;  // callbacks run
  interleave_stream_t streams[INTERLEAVE_STREAMS];
  interleave_thread_t threads[INTERLEAVE_THREADS];
};

// A number below |bound| that the thread's seed decides.
uint32_t interleave_pick(interleave_thread_t *thread, uint32_t bound);
// The thread's whole life; returns when its steps are made.
void interleave_thread_run(void *user);

void interleave_world_open(interleave_world_t *world, uint64_t seed);
// Ends graphs, streams and context; compares with the oracle. The number of buffers that differ.
uint32_t interleave_world_close(interleave_world_t *world);

#endif  // SLIP_INTERLEAVE_H_
