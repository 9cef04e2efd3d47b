// SPDX-License-Identifier: Apache-2.0
// The world that one faulty operation is tried in, the faults, and what must hold afterwards.
#ifndef SLIP_FAULT_WORLD_H_
#define SLIP_FAULT_WORLD_H_

#include "fixture.h"
#include "os/fault.h"
#include "platform/dispatch.h"
#include "slip_test_allocator.h"

typedef enum fault_class_e { FAULT_ALLOCATION, FAULT_PLATFORM, FAULT_SYSTEM } fault_class_e;

// The |nth| call of a kind fails; all later ones too if |persistent|.
typedef struct fault_t {
  fault_class_e class;
  uint32_t call;  // slip__platform_call_e or slip__os_call_e
  bool persistent;
} fault_t;

const char *fault_name(fault_t fault);
// What the operation must return when |fault| hits it; also OK, where |*out_tolerated|.
slip_code_t fault_expected_code(fault_t fault, bool *out_tolerated);

typedef struct fault_world_t {
  slip_context_options_t options;
  slip_test_allocator_t memory;
  slip__os_fault_plan_t plan;
  slip_context_t *context;
  slip_stream_t stream;
  int32_t add, control;
  slip_bytes_t scratch_image;
  uint32_t released, expected_released;
  uint64_t fired, leaks, wrong;
  uint64_t taken[2], given[2];  // modules, memory blocks of the platform: calls that succeeded
  uint32_t descriptors, threads;
  char what[160];  // the cell, for messages
} fault_world_t;

// Counts and reports a promise that was not kept.
void fault_wrong(fault_world_t *world, const char *format, ...) SLIP_PRINTF(2, 3);
// The status must have |code|; consumed.
void fault_check(fault_world_t *world, slip_status_t status, slip_code_t code, const char *what);

void fault_world_begin(fault_world_t *world, slip_context_options_t options, const char *what);
// Opens, prepares two callables, makes a stream.
void fault_world_open(fault_world_t *world);
// Launches inline and on the stream, and looks at the results.
void fault_world_use(fault_world_t *world);
// Closes, destroys, and looks for what is left.
void fault_world_end(fault_world_t *world);

void fault_arm(fault_world_t *world, fault_t fault, uint64_t nth);
// True if it hit anything.
bool fault_disarm(fault_world_t *world, fault_t fault);

slip_status_t fault_launch(fault_world_t *world, int32_t id, slip_stream_t stream, slip_status_t *out_result);

#endif  // SLIP_FAULT_WORLD_H_
