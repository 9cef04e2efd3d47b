// SPDX-License-Identifier: Apache-2.0
#include "os/fault.h"

_Atomic(slip__os_fault_plan_t *) slip__os_fault_plan;

void slip__os_fault_set(slip__os_fault_plan_t *plan) {
  atomic_store_explicit(&slip__os_fault_plan, plan, memory_order_release);
}

const char *slip__os_call_name(slip__os_call_e call) {
  static const char *const names[] = {
#define SLIP__OS_CALL_NAME(name, text) text,
      SLIP__OS_CALL_TABLE(SLIP__OS_CALL_NAME)
#undef SLIP__OS_CALL_NAME
  };
  return (unsigned)call < SLIP__OS_CALL_COUNT ? names[call] : "";
}

int slip__os_fault_slow(slip__os_call_e call) {
  slip__os_fault_plan_t *plan = atomic_load_explicit(&slip__os_fault_plan, memory_order_acquire);
  if (!plan || !(plan->kinds & (1u << call))) return 0;
  uint32_t seen = 1 + atomic_fetch_add_explicit(&plan->seen, 1, memory_order_relaxed);
  bool fails = plan->nth != 0 && (plan->persistent ? seen >= plan->nth : seen == plan->nth);
  if (!fails) return 0;
  atomic_fetch_add_explicit(&plan->failed, 1, memory_order_relaxed);
  return plan->error;
}
