// SPDX-License-Identifier: Apache-2.0
// The table of faults: every call that can be made to fail, and what the operation that it hits must then return.
#ifndef SLIP_FAULT_PLAN_H_
#define SLIP_FAULT_PLAN_H_

#include "os/fault.h"
#include "platform/dispatch.h"
#include "slip_test_allocator.h"

typedef enum fault_class_e {
  FAULT_ALLOCATION,  // through the context's allocator
  FAULT_MALLOC,      // the C library's, of the calling thread: the platforms' own memory too. Not under a sanitizer
  FAULT_PLATFORM,
  FAULT_SYSTEM,
} fault_class_e;

// The |nth| call of a kind fails; all later ones too if |persistent|.
typedef struct fault_t {
  fault_class_e class;
  uint32_t call;  // slip__platform_call_e or slip__os_call_e
  bool persistent;
} fault_t;

// All kinds: allocation, malloc, then the entries of the platform table, then the calls of the operating system.
#define FAULT_KINDS (2 + SLIP__PLATFORM_CALL_COUNT + SLIP__OS_CALL_COUNT)
fault_t fault_at(uint32_t kind, bool persistent);

const char *fault_name(fault_t fault);
static inline bool fault_is(fault_t fault, slip__platform_call_e call) {
  return fault.class == FAULT_PLATFORM && fault.call == call;
}
// Hits the device side of a launch, whose ticket tells it.
static inline bool fault_is_of_the_device(fault_t fault) {
  return fault_is(fault, SLIP__PLATFORM_CALL_DEVICE_MAP) || fault_is(fault, SLIP__PLATFORM_CALL_DEVICE_UNMAP);
}
// What the operation must return when |fault| hits it; also OK, where |*out_tolerated|.
slip_code_t fault_expected_code(fault_t fault, bool *out_tolerated);
// The failure as the platform would tell it is passed on with its number.
bool fault_has_platform_code(fault_t fault);

typedef struct fault_plan_t {
  fault_t fault;
  uint64_t nth;
  slip_test_allocator_t *memory;
  slip__os_fault_plan_t system;
  uint64_t requests, mallocs;  // before a watch
  uint64_t hits;               // of the calls, those that failed; once disarmed
} fault_plan_t;

// Nothing fails, and all calls are counted.
void fault_watch(fault_plan_t *plan);
// Ends that: of which kinds there were calls. Calls of the system are not told apart.
void fault_unwatch(fault_plan_t *plan, bool out_used[FAULT_KINDS]);

void fault_arm(fault_plan_t *plan, fault_t fault, uint64_t nth);
// True if it hit anything.
bool fault_disarm(fault_plan_t *plan);

#endif  // SLIP_FAULT_PLAN_H_
