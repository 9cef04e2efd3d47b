// SPDX-License-Identifier: Apache-2.0
#include "platform/watch.h"

#define SLIP__PLATFORM_FAULT_PERSISTENT (1ull << 63)

typedef struct slip__platform_fault_t {
  _Atomic uint64_t plan;  // which call fails, with SLIP__PLATFORM_FAULT_PERSISTENT; 0: none
  _Atomic uint64_t seen;
} slip__platform_fault_t;

_Atomic uint32_t slip__platform_watched;
static _Atomic uint64_t slip__platform_counters[SLIP__PLATFORM_CALL_COUNT];
static slip__platform_fault_t slip__platform_faults[SLIP__PLATFORM_CALL_COUNT];
static slip__platform_log_fn_t slip__platform_log;
static void *slip__platform_log_user;

const char *slip__platform_call_name(slip__platform_call_e call) {
  static const char *const names[] = {
#define SLIP__PLATFORM_CALL_NAME(name, entry, need, code) #entry,
      SLIP__PLATFORM_CALL_TABLE(SLIP__PLATFORM_CALL_NAME)
#undef SLIP__PLATFORM_CALL_NAME
  };
  return (unsigned)call < SLIP__PLATFORM_CALL_COUNT ? names[call] : "";
}

static void slip__platform_watch(slip__platform_watch_bits_e bit, bool on) {
  if (on) {
    atomic_fetch_or_explicit(&slip__platform_watched, bit, memory_order_release);
  } else {
    atomic_fetch_and_explicit(&slip__platform_watched, ~(uint32_t)bit, memory_order_release);
  }
}

void slip__platform_counters_reset(void) {
  for (size_t i = 0; i < SLIP__PLATFORM_CALL_COUNT; ++i) atomic_store_explicit(&slip__platform_counters[i], 0, memory_order_relaxed);
  slip__platform_watch(SLIP__PLATFORM_WATCH_COUNT, true);
}

void slip__platform_counters_stop(void) {
  slip__platform_watch(SLIP__PLATFORM_WATCH_COUNT, false);
}

uint64_t slip__platform_counter(slip__platform_call_e call) {
  return (unsigned)call < SLIP__PLATFORM_CALL_COUNT ? atomic_load_explicit(&slip__platform_counters[call], memory_order_relaxed) : 0;
}

void slip__platform_fault_set(slip__platform_call_e call, uint64_t nth, bool persistent) {
  if ((unsigned)call >= SLIP__PLATFORM_CALL_COUNT) return;
  slip__platform_fault_t *fault = &slip__platform_faults[call];
  atomic_store_explicit(&fault->plan, 0, memory_order_relaxed);
  atomic_store_explicit(&fault->seen, 0, memory_order_relaxed);
  atomic_store_explicit(&fault->plan, nth == 0 ? 0 : nth | (persistent ? SLIP__PLATFORM_FAULT_PERSISTENT : 0), memory_order_relaxed);
  slip__platform_watch(SLIP__PLATFORM_WATCH_FAULT, true);
}

void slip__platform_fault_clear(void) {
  slip__platform_watch(SLIP__PLATFORM_WATCH_FAULT, false);
  for (size_t i = 0; i < SLIP__PLATFORM_CALL_COUNT; ++i) atomic_store_explicit(&slip__platform_faults[i].plan, 0, memory_order_relaxed);
}

void slip__platform_log_set(slip__platform_log_fn_t log, void *user) {
  slip__platform_watch(SLIP__PLATFORM_WATCH_LOG, false);
  slip__platform_log = log;
  slip__platform_log_user = user;
  slip__platform_watch(SLIP__PLATFORM_WATCH_LOG, log != NULL);
}

static slip_code_t slip__platform_injected_code(slip__platform_call_e call) {
  static const slip_code_t codes[] = {
#define SLIP__PLATFORM_CALL_CODE(name, entry, need, code) SLIP_CODE_##code,
      SLIP__PLATFORM_CALL_TABLE(SLIP__PLATFORM_CALL_CODE)
#undef SLIP__PLATFORM_CALL_CODE
  };
  return codes[call];
}

slip_status_t slip__platform_enter(const slip_platform_t *platform, slip__platform_call_e call, uint32_t watched) {
  if (watched & SLIP__PLATFORM_WATCH_COUNT) atomic_fetch_add_explicit(&slip__platform_counters[call], 1, memory_order_relaxed);
  if (!(watched & SLIP__PLATFORM_WATCH_FAULT)) return slip_ok_status();
  slip__platform_fault_t *fault = &slip__platform_faults[call];
  uint64_t plan = atomic_load_explicit(&fault->plan, memory_order_relaxed);
  if (plan == 0) return slip_ok_status();
  uint64_t nth = plan & ~SLIP__PLATFORM_FAULT_PERSISTENT;
  uint64_t seen = 1 + atomic_fetch_add_explicit(&fault->seen, 1, memory_order_relaxed);
  if (seen != nth && !(seen > nth && (plan & SLIP__PLATFORM_FAULT_PERSISTENT))) return slip_ok_status();
  return SLIP_STATUS_PLATFORM(slip__platform_injected_code(call), SLIP__PLATFORM_INJECTED, "%s %s call number %llu fails on request",
                              platform->vtable->name, slip__platform_call_name(call), (unsigned long long)seen);
}

slip_status_t slip__platform_leave(const slip_platform_t *platform, slip__platform_call_e call, uint32_t watched, slip_status_t status) {
  if (watched & SLIP__PLATFORM_WATCH_LOG)
    slip__platform_log(slip__platform_log_user, platform->vtable->name, call, slip_status_code(status));
  return status;
}
