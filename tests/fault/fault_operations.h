// SPDX-License-Identifier: Apache-2.0
// The table of operations: what is tried under each fault, and what is true of it afterwards.
#ifndef SLIP_FAULT_OPERATIONS_H_
#define SLIP_FAULT_OPERATIONS_H_

#include "fault_use.h"

typedef struct fault_operation_t {
  const char *name;
  uint32_t places;  // fault_place_e, or'ed
  bool opened;      // runs in an opened world
  // Before the fault is armed; NULL: nothing.
  void (*begin)(fault_world_t *world);
  // Under the fault. Makes no call of its own to the platform but what the operation is about.
  slip_status_t (*run)(fault_world_t *world);
  // After it failed, disarmed: is the state as documented, and does the retry work? NULL: nothing of its own.
  void (*failed)(fault_world_t *world, fault_t fault);
  // After it went well (also after a tolerated fault): what it is for has happened. NULL: nothing to see.
  void (*done)(fault_world_t *world);
  // OK is fine although |fault| hit: what fails is put off and tried again. NULL: never.
  bool (*tolerates)(fault_t fault);
  bool several;  // several calls, of which a later one may be the one that tells
} fault_operation_t;

// The sweep that a wait or a launch makes on the side is put off by a fault, to the next one.
bool fault_puts_off_sweeping(fault_t fault);

// NULL if there is none.
const fault_operation_t *fault_operation_find(const char *name);

// Each ends with an operation without a name.
extern const fault_operation_t fault_context_operations[];
extern const fault_operation_t fault_launch_operations[];
extern const fault_operation_t fault_graph_operations[];

#endif  // SLIP_FAULT_OPERATIONS_H_
