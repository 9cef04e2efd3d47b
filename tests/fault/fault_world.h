// SPDX-License-Identifier: Apache-2.0
// The world that one faulty operation is tried in: a platform, a caller's stream and vectors, a context; and what is left of it at the end.
#ifndef SLIP_FAULT_WORLD_H_
#define SLIP_FAULT_WORLD_H_

#include "fault_plan.h"
#include "fixture.h"
#include "kernel_mode/context.h"
#include "slipstream/graph.h"
#include "slipstream/sim.h"

typedef enum fault_place_e {
  FAULT_CPU = 1,
  FAULT_CUDA = 2,    // the simulator with the rules of cuda
  FAULT_ASCEND = 4,  // ... of ascend
  FAULT_SIM = FAULT_CUDA | FAULT_ASCEND,
  FAULT_ALL = FAULT_SIM | FAULT_CPU,
} fault_place_e;

// Where and with which options an operation is tried.
typedef struct fault_variant_t {
  const char *name;
  fault_place_e place;
  slip_context_options_t options;
} fault_variant_t;

#define FAULT_ELEMENTS 4

// Resources of the platform, by calls that succeeded.
typedef enum fault_resource_e {
  FAULT_STREAMS,
  FAULT_EVENTS,
  FAULT_MEMORY,
  FAULT_HOST_MEMORY,
  FAULT_MODULES,
  FAULT_RESOURCES
} fault_resource_e;

// What a cell's process has at rest: counted once, before the first world.
typedef struct fault_rest_t {
  uint32_t descriptors, threads;
} fault_rest_t;
fault_rest_t fault_rest(void);

typedef struct fault_world_t {
  char what[200];  // the cell, for messages
  const fault_variant_t *variant;
  slip_platform_t *platform;
  slip_test_allocator_t memory;
  fault_plan_t plan;
  slip_context_options_t options;
  slip_context_t *context;
  slip_stream_t stream;  // the caller's
  int32_t add, control;
  slip_bytes_t add_image, control_image, scratch_image;
  float *x, *y, *z;                 // on the device
  float *spare;                     // there too: no launch touches it
  float *host;                      // page-locked: what is copied there and what comes back
  slip_frame_t frame, frame_twice;  // z = x + y, z = y + y; built after add was prepared
  bool framed;
  // What an operation has made and the end of the world gives back.
  slip_ticket_t *ticket;
  slip_graph_t *graph;
  slip_graph_exec_t exec;
  bool capturing;
  bool poisoned;     // the context is, as it must be
  bool unjoined;     // the capture cannot be ended well, as the launch has told
  int32_t prepared;  // an id that the operation was to set
  // Owners of launches.
  _Atomic uint32_t released;
  uint32_t records;
  uint64_t taken[FAULT_RESOURCES], given[FAULT_RESOURCES];
  uint64_t leaks, wrong;
} fault_world_t;

// Counts and reports a promise that was not kept.
void fault_wrong(fault_world_t *world, const char *format, ...) SLIP_PRINTF(2, 3);
// The status must have |code|; consumed.
void fault_check(fault_world_t *world, slip_status_t status, slip_code_t code, const char *what);

static inline bool fault_on_sim(const fault_world_t *world) {
  return world->variant->place != FAULT_CPU;
}

void fault_world_begin(fault_world_t *world, const fault_variant_t *variant, const char *what);
// Opens and prepares two callables.
void fault_world_open(fault_world_t *world);
// Prepares add again, after it was released, and builds its frames.
void fault_world_prepare_add(fault_world_t *world);
void fault_world_build_frames(fault_world_t *world);
// Ends the capture, gives everything back, closes (|close_code| is what close must return), destroys, and looks for what is left.
void fault_world_end(fault_world_t *world, const fault_rest_t *rest);
// After the context was closed and destroyed on a device that was reset: what the caller had there is gone.
void fault_world_end_after_reset(fault_world_t *world, const fault_rest_t *rest);
// Its first half: all of the caller's that refers to the context but the context itself.
void fault_world_let_go(fault_world_t *world);
// What must be true of every end, unless somebody reset the device.
void fault_world_check_nothing_left(fault_world_t *world, const fault_rest_t *rest);

#endif  // SLIP_FAULT_WORLD_H_
