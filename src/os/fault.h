// SPDX-License-Identifier: Apache-2.0
// Fault hook of the operating-system calls: a test makes the n-th call of some kinds fail with an errno of its choice.
//
// No plan is set in production: each call then costs one relaxed load. The plan is borrowed until slip__os_fault_set(NULL); its owner must
// make sure that no call is still running when the plan's memory goes.
#ifndef SLIPSTREAM_SRC_OS_FAULT_H_
#define SLIPSTREAM_SRC_OS_FAULT_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(NAME, text): the kinds of call that pass through the hook.
#define SLIP__OS_CALL_TABLE(X) \
  X(OPEN, "open")              \
  X(STAT, "stat")              \
  X(READ, "read")              \
  X(WRITE, "write")            \
  X(SYNC, "sync")              \
  X(CLOSE, "close")            \
  X(RENAME, "rename")          \
  X(MAKE, "mkdir")             \
  X(REMOVE, "remove")          \
  X(LIST, "list")              \
  X(MAP, "mmap")               \
  X(MEMFD, "memfd")            \
  X(LOAD, "dlopen")            \
  X(UNLOAD, "dlclose")         \
  X(SPAWN, "spawn")            \
  X(THREAD, "thread")

typedef enum slip__os_call_e {
#define SLIP__OS_CALL_ENUM(name, text) SLIP__OS_CALL_##name,
  SLIP__OS_CALL_TABLE(SLIP__OS_CALL_ENUM)
#undef SLIP__OS_CALL_ENUM
      SLIP__OS_CALL_COUNT
} slip__os_call_e;

#define SLIP__OS_CALL_BIT(name) (1u << SLIP__OS_CALL_##name)
// All kinds; and those that touch files (the table's first ones).
#define SLIP__OS_CALL_ALL   ((1u << SLIP__OS_CALL_COUNT) - 1u)
#define SLIP__OS_CALL_FILES (SLIP__OS_CALL_BIT(MEMFD) - 1u)

typedef struct slip__os_fault_plan_t {
  uint32_t kinds;           // SLIP__OS_CALL_BIT(...) of the calls that count
  uint32_t nth;             // the first one to fail, counted from 1; 0: none, the plan only counts
  bool persistent;          // all from there on fail, not just the one
  int error;                // errno to fail with
  _Atomic uint32_t seen;    // calls of |kinds| so far
  _Atomic uint32_t failed;  // calls made to fail so far
} slip__os_fault_plan_t;

extern _Atomic(slip__os_fault_plan_t *) slip__os_fault_plan;

// Sets or (NULL) clears the process's plan. Release: pairs with the acquire of slip__os_fault_slow.
void slip__os_fault_set(slip__os_fault_plan_t *plan);
const char *slip__os_call_name(slip__os_call_e call);
int slip__os_fault_slow(slip__os_call_e call);

// 0: go on. Else the errno that the call must fail with.
static inline int slip__os_fault(slip__os_call_e call) {
  if (__builtin_expect(atomic_load_explicit(&slip__os_fault_plan, memory_order_relaxed) == NULL, 1)) return 0;
  return slip__os_fault_slow(call);
}

#endif  // SLIPSTREAM_SRC_OS_FAULT_H_
