// SPDX-License-Identifier: Apache-2.0
#include "fault_plan.h"

#include <errno.h>

#include "slip_test_malloc.h"

fault_t fault_at(uint32_t kind, bool persistent) {
  if (kind == 0) return (fault_t){FAULT_ALLOCATION, 0, persistent};
  if (kind == 1) return (fault_t){FAULT_MALLOC, 0, persistent};
  kind -= 2;
  if (kind < SLIP__PLATFORM_CALL_COUNT) return (fault_t){FAULT_PLATFORM, kind, persistent};
  return (fault_t){FAULT_SYSTEM, kind - SLIP__PLATFORM_CALL_COUNT, persistent};
}

const char *fault_name(fault_t fault) {
  if (fault.class == FAULT_PLATFORM) return slip__platform_call_name((slip__platform_call_e)fault.call);
  if (fault.class == FAULT_SYSTEM) return slip__os_call_name((slip__os_call_e)fault.call);
  return fault.class == FAULT_MALLOC ? "malloc" : "allocation";
}

// --- codes -------------------------------------------------------------------------------------------------------------------------------

static slip_code_t fault_platform_code(uint32_t call) {
  switch (call) {
#define FAULT_CODE(name, entry, need, code) \
  case SLIP__PLATFORM_CALL_##name:          \
    return SLIP_CODE_##code;
    SLIP__PLATFORM_CALL_TABLE(FAULT_CODE)
#undef FAULT_CODE
    default:
      return SLIP_CODE_INTERNAL;
  }
}

static slip_code_t fault_system_code(uint32_t call, bool *out_tolerated) {
  switch (call) {
    case SLIP__OS_CALL_LOAD:
      return SLIP_CODE_CORRUPT;
    case SLIP__OS_CALL_MAP:
    case SLIP__OS_CALL_THREAD:
      return SLIP_CODE_OUT_OF_MEMORY;
    case SLIP__OS_CALL_MEMFD:
    case SLIP__OS_CALL_WRITE:
    case SLIP__OS_CALL_UNLOAD:
      return SLIP_CODE_IO;
    default:
      *out_tolerated = true;  // topology files: their absence only costs knowledge
      return SLIP_CODE_OK;
  }
}

slip_code_t fault_expected_code(fault_t fault, bool *out_tolerated) {
  *out_tolerated = fault.class == FAULT_MALLOC;  // the text of a status is no reason to fail
  if (fault.class == FAULT_ALLOCATION || fault.class == FAULT_MALLOC) return SLIP_CODE_OUT_OF_MEMORY;
  if (fault.class == FAULT_SYSTEM) return fault_system_code(fault.call, out_tolerated);
  // A target that the platform does not know is incompatible.
  if (fault.call == SLIP__PLATFORM_CALL_TARGET_SUPPORTED) return SLIP_CODE_INCOMPATIBLE;
  return fault_platform_code(fault.call);
}

bool fault_has_platform_code(fault_t fault) {
  return fault.class == FAULT_PLATFORM && fault.call != SLIP__PLATFORM_CALL_TARGET_SUPPORTED;
}

// --- arming ------------------------------------------------------------------------------------------------------------------------------

static int fault_errno(uint32_t call) {
  return call == SLIP__OS_CALL_MAP ? ENOMEM : call == SLIP__OS_CALL_THREAD ? EAGAIN : EIO;
}

void fault_arm(fault_plan_t *plan, fault_t fault, uint64_t nth) {
  plan->fault = fault;
  plan->nth = nth;
  plan->hits = 0;
  switch (fault.class) {
    case FAULT_ALLOCATION:
      plan->memory->failed = 0;
      slip_test_allocator_fail(plan->memory, nth, fault.persistent);
      break;
    case FAULT_MALLOC:
      slip_test_malloc_fail(nth, fault.persistent);
      break;
    case FAULT_PLATFORM:
      slip__platform_counters_reset();
      slip__platform_fault_set((slip__platform_call_e)fault.call, nth, fault.persistent);
      break;
    case FAULT_SYSTEM:
      plan->system = (slip__os_fault_plan_t){
          .kinds = 1u << fault.call, .nth = (uint32_t)nth, .persistent = fault.persistent, .error = fault_errno(fault.call)};
      slip__os_fault_set(&plan->system);
      break;
  }
}

static uint64_t fault_platform_hits(const fault_plan_t *plan) {
  uint64_t seen = slip__platform_counter((slip__platform_call_e)plan->fault.call);
  if (seen < plan->nth) return 0;
  return plan->fault.persistent ? seen - plan->nth + 1 : 1;
}

bool fault_disarm(fault_plan_t *plan) {
  switch (plan->fault.class) {
    case FAULT_ALLOCATION:
      plan->hits = plan->memory->failed;
      slip_test_allocator_fail(plan->memory, 0, false);
      break;
    case FAULT_MALLOC:
      plan->hits = slip_test_malloc_failed();
      slip_test_malloc_fail(0, false);
      break;
    case FAULT_PLATFORM:
      slip__platform_fault_clear();
      slip__platform_counters_stop();
      plan->hits = fault_platform_hits(plan);
      break;
    case FAULT_SYSTEM:
      slip__os_fault_set(NULL);
      plan->hits = atomic_load(&plan->system.failed);
      break;
  }
  return plan->hits > 0;
}

// --- watching ----------------------------------------------------------------------------------------------------------------------------

void fault_watch(fault_plan_t *plan) {
  plan->fault = (fault_t){FAULT_ALLOCATION, 0, false};
  plan->hits = 0;
  slip_test_allocator_fail(plan->memory, 0, false);
  plan->requests = plan->memory->requests;
  plan->mallocs = slip_test_malloc_count();
  slip__platform_counters_reset();
  plan->system = (slip__os_fault_plan_t){.kinds = SLIP__OS_CALL_ALL};
  slip__os_fault_set(&plan->system);
}

void fault_unwatch(fault_plan_t *plan, bool out_used[FAULT_KINDS]) {
  slip__os_fault_set(NULL);
  slip__platform_counters_stop();
  out_used[0] = plan->memory->requests > plan->requests;
  out_used[1] = slip_test_malloc_count() > plan->mallocs;
  for (uint32_t call = 0; call < SLIP__PLATFORM_CALL_COUNT; ++call)
    out_used[2 + call] = slip__platform_counter((slip__platform_call_e)call) > 0;
  for (uint32_t call = 0; call < SLIP__OS_CALL_COUNT; ++call)
    out_used[2 + SLIP__PLATFORM_CALL_COUNT + call] = atomic_load(&plan->system.seen) > 0;
}
